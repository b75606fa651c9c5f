/** The client's address: that of the socket, or the one given by a trusted proxy. */
import { timingSafeEqual } from 'node:crypto';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

export interface Peer {
  readonly ip: string;
  readonly isHttps: boolean;
  /** Whether the socket is a trusted proxy's. */
  readonly isProxied: boolean;
}

interface Seen {
  /** Null for text that is not an address. */
  readonly ip: string | null;
  readonly isProxy: boolean;
}

/** The longest text of an IPv6 address with an IPv4 tail and a zone. */
const addressCharsMax = 64;
/** Addresses whose parsed form is cached: parsing takes longer than everything else done with an address. */
const seenMax = 10_000;

/** What a request says about its client. */
export interface Forwarded {
  readonly for: string;
  readonly proto: string;
  /** X-Signpost-Proxy */
  readonly secret: string;
}

/**
 * Networks in CIDR notation. A plain address is a network of one. @throws if one is neither. With a secret, an address of
 * these networks is a proxy only in requests that have it.
 */
export class TrustedProxies {
  readonly #networks: readonly Network[];
  readonly #secret: Buffer;
  readonly #seen = new Map<string, Seen>();

  constructor(networks: readonly string[], secret = '') {
    this.#secret = Buffer.from(secret);
    this.#networks = networks.map((text) => {
      if (text.includes('/')) return ipaddr.parseCIDR(text);
      const address = ipaddr.process(text);
      return [address, address.kind() === 'ipv4' ? 32 : 128];
    });
  }

  has(ip: string): boolean {
    return this.#networks.length > 0 && this.#look(ip).isProxy;
  }

  /**
   * The client behind the socket. From an untrusted peer every X-Forwarded-* header is ignored; from a trusted one the
   * client is the right-most entry of X-Forwarded-For that is not itself a trusted proxy.
   */
  peer(socketIp: string, isTls: boolean, forwarded: Forwarded): Peer {
    const socket = this.#look(socketIp);
    const ip = socket.ip ?? socketIp;
    if (!socket.isProxy || !this.#isSecret(forwarded.secret)) return { ip, isHttps: isTls, isProxied: false };
    const isHttps = forwarded.proto === '' ? isTls : forwarded.proto.trim().toLowerCase() === 'https';
    const chain = forwarded.for.split(',');
    let client = ip;
    for (let at = chain.length - 1; at >= 0; at--) {
      const entry = this.#look((chain[at] ?? '').trim());
      if (entry.ip === null) break;
      client = entry.ip;
      if (!entry.isProxy) break;
    }
    return { ip: client, isHttps, isProxied: true };
  }

  #isSecret(text: string): boolean {
    if (this.#secret.length === 0) return true;
    const given = Buffer.from(text);
    return given.length === this.#secret.length && timingSafeEqual(given, this.#secret);
  }

  #look(text: string): Seen {
    const known = this.#seen.get(text);
    if (known !== undefined) return known;
    const seen = this.#parse(text);
    if (this.#seen.size >= seenMax) this.#seen.clear();
    // Text longer than any address is not cached.
    if (text.length <= addressCharsMax) this.#seen.set(text, seen);
    return seen;
  }

  #parse(entry: string): Seen {
    const text = withoutPort(entry);
    if (!ipaddr.isValid(text)) return { ip: null, isProxy: false };
    const address = ipaddr.process(text);
    const isProxy = this.#networks.some(
      ([network, bits]) => address.kind() === network.kind() && address.match(network, bits),
    );
    return { ip: plainAddress(text), isProxy };
  }
}

/** `8.8.8.8:1234`, `[2001:db8::1]:443` and `[2001:db8::1]`, as some proxies write them, reduced to the address. */
function withoutPort(entry: string): string {
  const [, v6, v4] = /^(?:\[([^\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/.exec(entry) ?? [];
  return v6 ?? v4 ?? entry;
}

/** IPv4-mapped IPv6 (`::ffff:192.0.2.1`) as IPv4, IPv6 in its short form, anything else unchanged. */
export function plainAddress(text: string): string {
  if (!text.includes(':')) return text;
  return ipaddr.isValid(text) ? ipaddr.process(text).toString() : text;
}

/** What a limit per IP counts: the address, or the /64 of an IPv6 one, since a household has that many. */
export function limitAddress(ip: string): string {
  const address = ipv6Of(ip);
  return typeof address === 'string' ? address : networkOf(address, 64);
}

/** A network that is charged, and how many times the limit of one address it has. */
export interface ChargedNetwork {
  readonly subject: string;
  readonly factor: number;
}

/**
 * Sizes in which IPv6 is assigned: a host, a household, a site. A wider one has a higher limit, but less than the sum
 * of its parts.
 */
const ipv6Factors = [
  [64, 1],
  [56, 4],
  [48, 16],
] as const;

/**
 * What an address is charged to if one customer may have many /64s: itself, and the networks around it; the widest
 * last.
 */
export function limitNetworks(ip: string): ChargedNetwork[] {
  const address = ipv6Of(ip);
  if (typeof address === 'string') return [{ subject: address, factor: 1 }];
  return ipv6Factors.map(([bits, factor]) => ({ subject: networkOf(address, bits), factor }));
}

/**
 * The parts of an app's limit that one network gets, so that nobody uses it up alone: a fifth for a /24 or /64, three
 * fifths for a /48.
 */
export function shareNetworks(ip: string): ChargedNetwork[] {
  const address = ipv6Of(ip);
  if (typeof address === 'string')
    return [{ subject: `${address.slice(0, address.lastIndexOf('.'))}.0/24`, factor: 0.2 }];
  return [
    { subject: networkOf(address, 64), factor: 0.2 },
    { subject: networkOf(address, 48), factor: 0.6 },
  ];
}

/** The text itself if it is not an IPv6 address; the IPv4 address if it is IPv4-mapped. */
function ipv6Of(ip: string): ipaddr.IPv6 | string {
  if (!ip.includes(':') || !ipaddr.isValid(ip)) return ip;
  const address = ipaddr.process(ip);
  return address instanceof ipaddr.IPv6 ? address : address.toString();
}

function networkOf(address: ipaddr.IPv6, bits: 48 | 56 | 64): string {
  const parts = address.parts.slice(0, 4);
  const [a = 0, b = 0, c = 0, d = 0] = parts;
  const kept = bits === 64 ? parts : bits === 56 ? [a, b, c, d & 0xff00] : [a, b, c];
  return `${kept.map((part) => part.toString(16)).join(':')}::/${bits}`;
}
