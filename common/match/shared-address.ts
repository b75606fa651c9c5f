/** Addresses shared by many people, which say little about a device. */
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

const localRanges = ['loopback', 'private', 'uniqueLocal', 'linkLocal'];

interface AddressTraits {
  readonly isShared: boolean;
  readonly isLocal: boolean;
}

/**
 * Parsing an address costs more than all other rules together, and each match needs its device's address several times.
 */
const cache = new LRUCache<string, AddressTraits>({ max: 20_000 });
const noTraits: AddressTraits = { isShared: false, isLocal: false };

function traitsOf(ip: string): AddressTraits {
  let traits = cache.get(ip);
  if (traits === undefined) {
    if (ipaddr.isValid(ip)) {
      const address = ipaddr.process(ip);
      traits = { isShared: isWithin(address), isLocal: localRanges.includes(address.range()) };
    } else traits = noTraits;
    cache.set(ip, traits);
  }
  return traits;
}

export function isSharedAddress(ip: string): boolean {
  return traitsOf(ip).isShared;
}

/** Loopback, link-local and private addresses (RFC 1918, RFC 4193). */
export function isLocalAddress(ip: string): boolean {
  return traitsOf(ip).isLocal;
}

function isWithin(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return networks.some(([network, bits]) => address.kind() === network.kind() && address.match(network, bits));
}

/** The kind of an address, which is all that the rules use. */
export type NetworkKind = 'unknown' | 'local' | 'shared' | 'shared_household' | 'household' | 'many';

/** @param ip as in signals: for IPv6 the /64. */
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

/** An example address of that kind, for which the rules decide as for the original one. */
export function exampleOf(kind: NetworkKind): string {
  return examples[kind];
}
