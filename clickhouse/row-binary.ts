/**
 * Rows in RowBinary, the format that is cheapest for ClickHouse, written into one growing buffer.
 * clickhouse.com/docs/interfaces/formats/RowBinary
 */

const firstBytes = 65_536;
/** Up to this length, a loop over the characters is faster than a call into the native encoder. */
const shortChars = 48;
/** A length in three bytes is enough for 2 MiB; ClickHouse accepts a varint longer than necessary. */
const lengthBytes = 3;

/**
 * Encoded columns as text of one character per byte: values that repeat in many rows are encoded once, and
 * concatenating such texts is the cheapest way to form a row.
 */
export type ByteText = string;

const isAscii = /^[\0-\x7f]*$/;

/** String. */
export function stringBytes(text: string): ByteText {
  const bytes = isAscii.test(text) ? text : Buffer.from(text).toString('latin1');
  const { length } = bytes;
  if (length < 0x80) return String.fromCharCode(length) + bytes;
  if (length < 0x4000) return String.fromCharCode((length & 0x7f) | 0x80, length >>> 7) + bytes;
  return String.fromCharCode((length & 0x7f) | 0x80, ((length >>> 7) & 0x7f) | 0x80, length >>> 14) + bytes;
}

export function boolBytes(value: boolean): ByteText {
  return value ? '\x01' : '\0';
}

/** UInt16. */
export function uint16Bytes(value: number): ByteText {
  return String.fromCharCode(value & 0xff, value >>> 8);
}

/** UInt32. */
export function uint32Bytes(value: number): ByteText {
  return String.fromCharCode(value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24);
}

/** UInt64, and Int64 or DateTime64 of the years after 1970: whole numbers up to 2^53. */
export function uint64Bytes(value: number): ByteText {
  return uint32Bytes(value >>> 0) + uint32Bytes(Math.floor(value / 0x100000000));
}

export class RowWriter {
  #buffer: Buffer;
  #at = 0;

  /** @param expectedBytes an estimate of the total: each growth of the buffer leaves garbage. */
  constructor(expectedBytes = firstBytes) {
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(Math.ceil(expectedBytes), firstBytes));
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#at);
  }

  /** String: its length in bytes as a varint, then UTF-8. */
  string(text: string): void {
    const { length } = text;
    if (this.#buffer.length - this.#at < lengthBytes + length * 3) this.#grow(lengthBytes + length * 3);
    const buffer = this.#buffer;
    if (length <= shortChars) {
      let at = this.#at + 1;
      let index = 0;
      for (; index < length; index++) {
        const code = text.charCodeAt(index);
        if (code > 0x7f) break;
        buffer[at++] = code;
      }
      if (index === length) {
        buffer[this.#at] = length;
        this.#at = at;
        return;
      }
    }
    const bytes = buffer.write(text, this.#at + lengthBytes, 'utf8');
    buffer[this.#at] = (bytes & 0x7f) | 0x80;
    buffer[this.#at + 1] = ((bytes >>> 7) & 0x7f) | 0x80;
    buffer[this.#at + 2] = bytes >>> 14;
    this.#at += lengthBytes + bytes;
  }

  /** Columns that are already encoded. */
  encoded(bytes: ByteText): void {
    this.#room(bytes.length);
    this.#at += this.#buffer.write(bytes, this.#at, 'latin1');
  }

  /** Array(String) of fewer than 128 items. */
  strings(texts: readonly string[]): void {
    this.#room(1);
    this.#buffer[this.#at++] = texts.length;
    for (const text of texts) this.string(text);
  }

  int8(value: number): void {
    this.#room(1);
    this.#at = this.#buffer.writeInt8(value, this.#at);
  }

  bool(value: boolean): void {
    this.#room(1);
    this.#buffer[this.#at++] = value ? 1 : 0;
  }

  uint16(value: number): void {
    this.#room(2);
    this.#at = this.#buffer.writeUInt16LE(value, this.#at);
  }

  uint32(value: number): void {
    this.#room(4);
    this.#at = this.#buffer.writeUInt32LE(value, this.#at);
  }

  /** UInt64, and Int64 or DateTime64 of the years after 1970: whole numbers up to 2^53. */
  uint64(value: number): void {
    this.#room(8);
    const high = Math.floor(value / 0x100000000);
    this.#buffer.writeUInt32LE(value - high * 0x100000000, this.#at);
    this.#at = this.#buffer.writeUInt32LE(high, this.#at + 4);
  }

  float64(value: number): void {
    this.#room(8);
    this.#at = this.#buffer.writeDoubleLE(value, this.#at);
  }

  /** Int128, and Decimal of 19 to 38 digits as a whole number of its smallest unit. */
  int128(value: bigint): void {
    this.#room(16);
    this.#at = this.#buffer.writeBigUInt64LE(BigInt.asUintN(64, value), this.#at);
    this.#at = this.#buffer.writeBigInt64LE(BigInt.asIntN(64, value >> 64n), this.#at);
  }

  #room(bytes: number): void {
    if (this.#buffer.length - this.#at < bytes) this.#grow(bytes);
  }

  #grow(bytes: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#buffer.length * 2, this.#at + bytes));
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#buffer = larger;
  }
}
