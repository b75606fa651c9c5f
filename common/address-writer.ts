/**
 * How an edge writes an IP address to its records:
 *
 *   full_ip        the address
 *   anonymize_ip   its network, `~`, a keyed hash: clicks and devices behind one address have the same
 *   no_ip          its network, `~`, a keyed hash of the day: counts visitors, matches nothing
 *
 * The country is looked up by the network (IPv4 /24, IPv6 /48). The hash is of the address, or of the /64 of an IPv6
 * address, and cannot be reversed without ADDRESS_KEY.
 */
import { hash } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import { DAY_MS } from './durations.ts';
import { limitAddress } from './http/peer.ts';
import type { PrivacyMode } from './log/record.ts';

const mark = '~';
/** 96 bits: collisions do not occur in practice. */
const hashChars = 16;
/** Addresses whose written form is cached. */
const knownMax = 10_000;

interface Known {
  anonymized: string;
  hidden: string;
  /** The UTC day of the key in `hidden`. */
  day: number;
}

export class AddressWriter {
  readonly #key: string;
  readonly #known = new Map<string, Known>();

  /** @param key ADDRESS_KEY, the same on every edge. */
  constructor(key: string) {
    this.#key = hash('sha256', key, 'base64url');
  }

  /** The address of a click as written to its record. */
  ofClick(ip: string, mode: PrivacyMode, nowMs: number): string {
    if (mode === 'full_ip' || ip === '') return ip;
    const known = this.#look(ip);
    if (mode === 'anonymize_ip') {
      if (known.anonymized === '')
        known.anonymized = addressNetworkOf(ip) + mark + this.#hash('match', limitAddress(ip));
      return known.anonymized;
    }
    const day = Math.floor(nowMs / DAY_MS);
    if (known.day !== day) {
      known.hidden = addressNetworkOf(ip) + mark + this.#hash(`day ${day}`, limitAddress(ip));
      known.day = day;
    }
    return known.hidden;
  }

  /**
   * The name under which clicks from a device's address are found, as `addressName` reads it from a click. Empty if
   * there is none.
   */
  ofDevice(ip: string, mode: PrivacyMode): string {
    if (mode === 'no_ip' || ip === '') return '';
    return mode === 'full_ip' ? limitAddress(ip) : addressName(this.ofClick(ip, mode, 0), mode);
  }

  #look(ip: string): Known {
    let known = this.#known.get(ip);
    if (known === undefined) {
      if (this.#known.size >= knownMax) this.#known.clear();
      known = { anonymized: '', hidden: '', day: -1 };
      this.#known.set(ip, known);
    }
    return known;
  }

  /** A key of fixed length before the text, and half of the digest: as secure as an HMAC, at an eighth of its cost. */
  #hash(what: string, text: string): string {
    return hash('sha256', `${this.#key}\n${what}\n${text}`, 'base64url').slice(0, hashChars);
  }
}

/** The name under which clicks from a record's address are found; empty if they can't be matched by it. */
export function addressName(recorded: string, mode: PrivacyMode): string {
  if (mode === 'no_ip' || recorded === '') return '';
  if (mode === 'full_ip') return limitAddress(recorded);
  const at = recorded.indexOf(mark);
  return at === -1 ? '' : recorded.slice(at + 1);
}

/** The address in a record without its hash. */
export function withoutHash(recorded: string): string {
  const at = recorded.indexOf(mark);
  return at === -1 ? recorded : recorded.slice(0, at);
}

const plainIpv4 = /^(?:\d{1,3}\.){3}\d{1,3}$/;
const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
/** IPv4 as systems write it; the library also accepts other forms, and takes five times as long. */
const commonIpv4 = new RegExp(`^(?:${octet}\\.){3}${octet}$`);

/** The address cut to its network, IPv4 to /24 and IPv6 to /48; empty for text that is not an address. */
export function addressNetworkOf(ip: string): string {
  if (commonIpv4.test(ip)) return networkOf(ip);
  // For invalid text the library throws and catches an error internally, which was a quarter of the cost of an SDK
  // request.
  if (ip === '' || !ipaddr.isValid(ip)) return '';
  const plain = plainIpv4.test(ip) ? ip : ipaddr.process(ip).toString();
  if (!plain.includes(':')) return networkOf(plain);
  const parts = ipaddr.IPv6.parse(plain).parts.map((part, index) => (index < 3 ? part : 0));
  return new ipaddr.IPv6(parts).toString();
}

function networkOf(ipv4: string): string {
  return `${ipv4.slice(0, ipv4.lastIndexOf('.'))}.0`;
}

/** The address that is stored with an install. */
export function keptAddress(ip: string, mode: PrivacyMode): string {
  if (mode === 'no_ip') return '';
  return mode === 'full_ip' ? ip : addressNetworkOf(ip);
}
