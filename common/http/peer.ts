/** Who is at the other end: the socket's address, or what a trusted proxy says it is. */
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

export interface Peer {
  readonly ip: string;
  readonly isHttps: boolean;
}

/** Networks in CIDR form. A plain address is a network of one. @throws when one is neither. */
export class TrustedProxies {
  readonly #networks: readonly Network[];

  constructor(networks: readonly string[]) {
    this.#networks = networks.map((text) => {
      if (text.includes('/')) return ipaddr.parseCIDR(text);
      const address = ipaddr.process(text);
      return [address, address.kind() === 'ipv4' ? 32 : 128];
    });
  }

  has(ip: string): boolean {
    if (this.#networks.length === 0 || !ipaddr.isValid(ip)) return false;
    const address = ipaddr.process(ip);
    return this.#networks.some(([network, bits]) => address.kind() === network.kind() && address.match(network, bits));
  }

  /**
   * The client behind the socket. From an untrusted peer every X-Forwarded-* header is ignored; from a trusted
   * one the client is the right-most entry of X-Forwarded-For that is not itself a trusted proxy.
   */
  peer(socketIp: string, isTls: boolean, forwardedFor: string, forwardedProto: string): Peer {
    const ip = plainAddress(socketIp);
    if (!this.has(ip)) return { ip, isHttps: isTls };
    const isHttps = forwardedProto === '' ? isTls : forwardedProto.trim().toLowerCase() === 'https';
    const chain = forwardedFor.split(',');
    let client = ip;
    for (let at = chain.length - 1; at >= 0; at--) {
      const entry = plainAddress((chain[at] ?? '').trim());
      if (!ipaddr.isValid(entry)) break;
      client = entry;
      if (!this.has(entry)) break;
    }
    return { ip: client, isHttps };
  }
}

/** IPv4 in IPv6 clothes (`::ffff:192.0.2.1`) as IPv4, IPv6 in its short form, anything else as it is. */
export function plainAddress(text: string): string {
  if (!text.includes(':')) return text;
  return ipaddr.isValid(text) ? ipaddr.process(text).toString() : text;
}

/** What a limit per IP counts under: the address, or the /64 of an IPv6 one, since a household has that many. */
export function limitAddress(ip: string): string {
  if (!ip.includes(':') || !ipaddr.isValid(ip)) return ip;
  const address = ipaddr.process(ip);
  if (!(address instanceof ipaddr.IPv6)) return address.toString();
  return `${address.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}::/64`;
}
