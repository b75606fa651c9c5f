/**
 * Looks up host names in DNS. Does not use the system's resolver, which blocks a thread and knows names of this
 * machine.
 */
import { Resolver } from 'node:dns/promises';

/** All addresses of a host name. Rejects if there is none. */
export type Resolve = (host: string) => Promise<readonly string[]>;

const timeoutMs = 2_000;
const tries = 2;

/** @param servers `address` or `address:port`; if empty, the system's servers. */
export function resolveWith(servers: readonly string[]): Resolve {
  return async (host) => {
    const resolver = new Resolver({ timeout: timeoutMs, tries });
    if (servers.length > 0) resolver.setServers(servers);
    const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const addresses = found.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length === 0) throw new Error(`${host} has no address`);
    return addresses;
  };
}
