/**
 * Writes a database of countries in MaxMind's format (MaxMind DB file format specification, version 2.0), from ranges of
 * addresses. IPv4 addresses are at ::/96.
 */

/** From and to inclusive, as 128-bit numbers; ISO 3166 alpha-2. */
export interface CountryRange {
  readonly from: bigint;
  readonly to: bigint;
  readonly country: string;
}

const BITS = 128;
/** A record without a value yet. */
const NOTHING = -1;

/** A binary tree of prefixes. A record is another node, a country (negative), or nothing. */
class Tree {
  readonly nodes: number[] = [NOTHING, NOTHING];

  /** Adds each prefix of the range. Later ranges replace what earlier ones say. */
  add({ from, to }: CountryRange, value: number): void {
    let at = from;
    while (at <= to) {
      let free = at === 0n ? BITS : trailingZeros(at);
      while (at + (1n << BigInt(free)) - 1n > to) free--;
      this.#set(at, BITS - free, value);
      at += 1n << BigInt(free);
    }
  }

  #set(prefix: bigint, length: number, value: number): void {
    const bytes = Buffer.from(prefix.toString(16).padStart(BITS / 4, '0'), 'hex');
    let node = 0;
    for (let depth = 0; ; depth++) {
      const place = 2 * node + (((bytes[depth >> 3] ?? 0) >> (7 - (depth & 7))) & 1);
      if (depth === length - 1) {
        this.nodes[place] = value;
        return;
      }
      const next = this.nodes[place] ?? NOTHING;
      // A shorter prefix is divided: both halves have its value.
      if (next < 0) this.nodes.push(next, next);
      node = next < 0 ? this.nodes.length / 2 - 1 : next;
      this.nodes[place] = node;
    }
  }
}

function trailingZeros(value: bigint): number {
  let zeros = 0;
  for (let rest = value; (rest & 1n) === 0n; rest >>= 1n) zeros++;
  return zeros;
}

const metadataMark = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1');

/** @param description says what the data are and under which license; @param builtAt of the data. */
export function countryFile(ranges: Iterable<CountryRange>, description: string, builtAt: Date): Buffer {
  const tree = new Tree();
  const countries: string[] = [];
  const values = new Map<string, number>();
  for (const range of ranges) {
    let value = values.get(range.country);
    if (value === undefined) {
      // -1 is nothing, so that the first country is -2.
      value = -2 - countries.length;
      countries.push(range.country);
      values.set(range.country, value);
    }
    tree.add(range, value);
  }
  const { nodes } = tree;
  const count = nodes.length / 2;
  const records = countries.map((country) => map([['country_code', text(country)]]));
  const offsets: number[] = [];
  let size = 0;
  for (const record of records) {
    offsets.push(size);
    size += record.byteLength;
  }
  const search = Buffer.alloc(nodes.length * 4);
  for (const [at, value] of nodes.entries()) {
    const stored = value >= 0 ? value : value === NOTHING ? count : count + 16 + (offsets[-2 - value] ?? 0);
    search.writeUInt32BE(stored, at * 4);
  }
  const metadata = map([
    ['node_count', unsigned(6, count)],
    ['record_size', unsigned(5, 32)],
    ['ip_version', unsigned(5, 6)],
    ['database_type', text('Country')],
    ['languages', Buffer.concat([Buffer.from([1, 4]), text('en')])],
    ['binary_format_major_version', unsigned(5, 2)],
    ['binary_format_minor_version', unsigned(5, 0)],
    ['build_epoch', unsigned(9, Math.floor(builtAt.getTime() / 1000))],
    ['description', map([['en', text(description)]])],
  ]);
  return Buffer.concat([search, Buffer.alloc(16), ...records, metadataMark, metadata]);
}

/** The head of a value: its type and its size, which is below 285 here. */
function head(type: number, size: number): number[] {
  const first = type > 7 ? 0 : type << 5;
  const extended = type > 7 ? [type - 7] : [];
  return size < 29 ? [first | size, ...extended] : [first | 29, ...extended, size - 29];
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value).subarray(0, 284);
  return Buffer.concat([Buffer.from(head(2, bytes.byteLength)), bytes]);
}

function unsigned(type: 5 | 6 | 9, value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Buffer.from([...head(type, bytes.length), ...bytes]);
}

function map(entries: readonly (readonly [string, Buffer])[]): Buffer {
  return Buffer.concat([
    Buffer.from(head(7, entries.length)),
    ...entries.flatMap(([name, value]) => [text(name), value]),
  ]);
}
