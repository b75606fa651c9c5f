/** The body of a request. */
import { isAscii } from 'node:buffer';

const decoder = new TextDecoder('utf-8', { fatal: true });
const byteOrderMark = '\xef\xbb\xbf';

/**
 * The bytes are stored as a string of one character each. A buffer would be outside of V8's heap, and thousands of them
 * per second trigger extra garbage collections; a string that lives for one request costs next to nothing.
 */
export class RawBody {
  /** As received, without a byte order mark at its beginning. */
  readonly latin1: string;
  readonly #isAscii: boolean;

  /** Copies the bytes. */
  constructor(bytes: Uint8Array) {
    const latin1 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
    this.#isAscii = isAscii(bytes);
    this.latin1 = !this.#isAscii && latin1.startsWith(byteOrderMark) ? latin1.slice(byteOrderMark.length) : latin1;
  }

  get byteLength(): number {
    return this.latin1.length;
  }

  get bytes(): Buffer {
    return Buffer.from(this.latin1, 'latin1');
  }

  /** Null if it is not valid UTF-8. */
  text(): string | null {
    if (this.#isAscii) return this.latin1;
    try {
      return decoder.decode(this.bytes);
    } catch {
      return null;
    }
  }
}

export const emptyBody = new RawBody(new Uint8Array(0));
