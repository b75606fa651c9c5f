/** Addresses behind which many people stand, so that sharing one says little. */
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/**
 * Egress of iCloud Private Relay (mask-api.icloud.com/egress-ip-ranges.csv: Akamai, Cloudflare, Fastly), Cloudflare WARP,
 * shared address space (RFC 6598), and T-Mobile's translated addresses.
 */
const networks: readonly [ipaddr.IPv4 | ipaddr.IPv6, number][] = [
  '172.224.0.0/12',
  '104.28.0.0/16',
  '146.75.128.0/17',
  '140.248.0.0/16',
  '2a02:26f7::/32',
  '2606:54c0::/32',
  '2a09:bac0::/29',
  '2a04:4e41::/32',
  '100.64.0.0/10',
  '172.32.0.0/11',
].map((text) => ipaddr.parseCIDR(text));

const cache = new LRUCache<string, boolean>({ max: 20_000 });

export function isSharedAddress(ip: string): boolean {
  let isShared = cache.get(ip);
  if (isShared === undefined) {
    isShared = ipaddr.isValid(ip) && isWithin(ipaddr.process(ip));
    cache.set(ip, isShared);
  }
  return isShared;
}

/** Loopback, link-local and private addresses (RFC 1918, RFC 4193). */
export function isLocalAddress(ip: string): boolean {
  return ipaddr.isValid(ip) && ['loopback', 'private', 'uniqueLocal', 'linkLocal'].includes(ipaddr.process(ip).range());
}

function isWithin(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return networks.some(([network, bits]) => address.kind() === network.kind() && address.match(network, bits));
}

/** What the rules ask of an address, without the address. */
export type NetworkKind = 'unknown' | 'local' | 'shared' | 'shared_household' | 'household' | 'many';

/** @param ip as in signals: of IPv6 the /64. */
export function networkKindOf(ip: string): NetworkKind {
  if (ip === '') return 'unknown';
  const bare = ip.replace('::/64', '::');
  if (isLocalAddress(bare)) return 'local';
  if (isSharedAddress(bare)) return ip.endsWith('/64') ? 'shared_household' : 'shared';
  return ip.endsWith('/64') ? 'household' : 'many';
}

const examples: Readonly<Record<NetworkKind, string>> = {
  unknown: '',
  local: '10.0.0.1',
  shared: '100.64.0.1',
  shared_household: '2a02:26f7::/64',
  household: '2001:db8::/64',
  many: '203.0.113.1',
};

/** An address of that kind: by it the rules decide as by the one that was. */
export function exampleOf(kind: NetworkKind): string {
  return examples[kind];
}
