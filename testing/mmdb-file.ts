/** Writes a small database in MaxMind's format (maxmind.github.io/MaxMind-DB, version 2.0), so that no test needs a real one. */
import { isIPv4 } from 'node:net';

export type MmdbData = string | number | readonly MmdbData[] | { readonly [name: string]: MmdbData };

/** A record of the tree: another node, the data at an offset, or nothing. */
type Side = Node | { readonly offset: number } | null;
type Node = { sides: [Side, Side]; no: number };

const recordBytes = 3;
/** The zeros between the tree and the data count for pointers. */
const separatorBytes = 16;
const types = { text: 2, uint32: 6, map: 7, list: 11 } as const;

/** @param networks data by network, as 203.0.113.0/24 or 2001:db8::/32; none contains another. */
export function mmdbFile(networks: Readonly<Record<string, MmdbData>>): Buffer {
  const root = newNode();
  const data: Buffer[] = [];
  let offset = 0;
  for (const [network, value] of Object.entries(networks)) {
    insert(root, bitsOf(network), { offset });
    const encoded = encode(value);
    data.push(encoded);
    offset += encoded.length;
  }
  const nodes: Node[] = [];
  number(root, nodes);
  const tree = Buffer.concat(nodes.map(({ sides }) => Buffer.concat(sides.map((side) => record(side, nodes.length)))));
  const metadata = encode({
    ...{ node_count: nodes.length, record_size: recordBytes * 8, ip_version: 6, database_type: 'Test-City' },
    ...{ binary_format_major_version: 2, binary_format_minor_version: 0, build_epoch: 1_700_000_000 },
    ...{ languages: ['en'], description: { en: 'for tests' } },
  });
  const mark = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1');
  return Buffer.concat([tree, Buffer.alloc(separatorBytes), ...data, mark, metadata]);
}

/** A place as GeoLite2 City and GeoIP2 City describe it. */
export function cityData(country: string, region: { iso_code?: string; name: string }, city: string): MmdbData {
  const { iso_code, name } = region;
  return {
    city: { geoname_id: 1, names: { de: `${city} (de)`, en: city } },
    country: { iso_code: country, names: { en: country } },
    subdivisions: [
      { ...(iso_code === undefined ? {} : { iso_code }), names: { en: name } },
      { names: { en: 'Smaller' } },
    ],
  };
}

function newNode(): Node {
  return { sides: [null, null], no: 0 };
}

function insert(root: Node, bits: readonly (0 | 1)[], leaf: { readonly offset: number }): void {
  let node = root;
  for (const [at, bit] of bits.entries()) {
    if (at === bits.length - 1) {
      node.sides[bit] = leaf;
      return;
    }
    const next = node.sides[bit];
    if (next !== null && 'sides' in next) node = next;
    else {
      const made = newNode();
      node.sides[bit] = made;
      node = made;
    }
  }
}

function number(node: Node, nodes: Node[]): void {
  node.no = nodes.push(node) - 1;
  for (const side of node.sides) if (side !== null && 'sides' in side) number(side, nodes);
}

function record(side: Side, nodeCount: number): Buffer {
  const value = side === null ? nodeCount : 'sides' in side ? side.no : nodeCount + separatorBytes + side.offset;
  const bytes = Buffer.alloc(recordBytes);
  bytes.writeUIntBE(value, 0, recordBytes);
  return bytes;
}

/** The bits of the network's prefix; IPv4 is in the first /96 of IPv6. */
function bitsOf(network: string): (0 | 1)[] {
  const [address = '', length = ''] = network.split('/');
  const isV4 = isIPv4(address);
  const bytes = isV4 ? [...Array(12).fill(0), ...address.split('.').map(Number)] : bytesOfV6(address);
  const bits = bytes.flatMap((byte: number) =>
    Array.from({ length: 8 }, (_, at): 0 | 1 => ((byte >> (7 - at)) & 1 ? 1 : 0)),
  );
  return bits.slice(0, Number(length) + (isV4 ? 96 : 0));
}

function bytesOfV6(address: string): number[] {
  const [head = [], tail = []] = address.split('::').map((part) => part.split(':').filter((word) => word !== ''));
  const words = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  return words.flatMap((word) => [Number.parseInt(word, 16) >> 8, Number.parseInt(word, 16) & 0xff]);
}

function encode(value: MmdbData): Buffer {
  if (typeof value === 'string') {
    const text = Buffer.from(value);
    return Buffer.concat([control(types.text, text.length), text]);
  }
  if (typeof value === 'number') {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(value);
    return Buffer.concat([control(types.uint32, 4), bytes]);
  }
  if (Array.isArray(value)) return Buffer.concat([control(types.list, value.length), ...value.map(encode)]);
  const entries = Object.entries(value);
  return Buffer.concat([
    control(types.map, entries.length),
    ...entries.flatMap(([name, one]) => [encode(name), encode(one)]),
  ]);
}

/** The type and the size, below 285; a type above 7 has a byte of its own. */
function control(type: number, size: number): Buffer {
  const [short, more] = size < 29 ? [size, []] : [29, [size - 29]];
  return Buffer.from(type > 7 ? [short, type - 7, ...more] : [(type << 5) | short, ...more]);
}
