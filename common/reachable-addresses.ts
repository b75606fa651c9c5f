/**
 * Which addresses a server may connect to on behalf of a tenant: public unicast ones, and the networks that the
 * operator allows. Everything else, such as loopback, private and link-local networks, may be inside the installation.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

/** Ranges assigned to the public Internet; ipaddr.js reports everything outside its known ranges as unicast. */
const globalUnicast: Network = [ipaddr.parse('2000::'), 3];
/** A public address that a cloud serves locally on each of its machines (Azure's agent). */
const inside: readonly string[] = ['168.63.129.16'];

export class ReachableAddresses {
  readonly #allowed: readonly Network[];

  /** @param allowed networks in CIDR notation, or addresses. @throws if one is neither. */
  constructor(allowed: readonly string[]) {
    this.#allowed = allowed.map((text) => {
      if (text.includes('/')) return ipaddr.parseCIDR(text);
      const address = ipaddr.process(text);
      return [address, address.kind() === 'ipv4' ? 32 : 128];
    });
  }

  /**
   * An IPv4 address embedded in IPv6 counts as the IPv4 address. Text that is not an address in its usual form is in no
   * network.
   */
  has(text: string): boolean {
    if (text.includes('%') || isIP(text) === 0) return false;
    const address = ipaddr.process(text);
    return isPublic(address) || this.#allowed.some((network) => isIn(address, network));
  }
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  if (address.kind() === 'ipv4') return !inside.includes(address.toString());
  return isIn(address, globalUnicast);
}

function isIn(address: Address, [network, bits]: Network): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}
