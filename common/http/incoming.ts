/** The incoming request, read completely before the first await, as uWebSockets.js requires. */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';
import { RawBody } from './raw-body.ts';
import { invalid, type Rejection } from './rejection.ts';
import type { HttpRequest, HttpResponse } from './uws.ts';

const unpack = promisify(gunzip);

export type Headers = Readonly<Record<string, string>>;

/** Reads all headers. Headers that determine the end or the sender of a request must not be repeated. */
export function readHeaders(req: HttpRequest): { headers: Headers; fault: Rejection | null } {
  const headers: Record<string, string> = Object.create(null);
  let repeated = '';
  req.forEach((name, value) => {
    const before = headers[name];
    if (before === undefined) {
      headers[name] = value;
    } else if (name === 'x-forwarded-for') {
      headers[name] = `${before}, ${value}`;
    } else if (mustBeSingle.has(name)) {
      repeated = name;
    }
  });
  if (repeated !== '') return { headers, fault: invalid(repeated, 'is repeated') };
  const encoding = headers['transfer-encoding'] ?? 'chunked';
  // With any other encoding, the end of the request is undefined.
  const fault = encoding.toLowerCase() === 'chunked' ? null : invalid('transfer-encoding', 'only chunked is accepted');
  return { headers, fault };
}

const mustBeSingle = new Set([
  'content-length',
  'content-type',
  'content-encoding',
  'transfer-encoding',
  'host',
  'authorization',
  'x-api-key',
  'x-forwarded-proto',
  'x-signpost-proxy',
]);

/** Collects a body of at most `bytesMax`, saying how much arrives, and copying each chunk, since uWebSockets.js reuses its memory. */
export function collectBody(
  res: HttpResponse,
  exchange: Exchange,
  bytesMax: number,
  onBytes: (bytes: number) => void,
): Promise<RawBody | Rejection> {
  return new Promise((settle) => {
    let parts: Uint8Array[] = [];
    let size = 0;
    exchange.whenAborted(() => settle(invalid('body', 'the connection closed before the body was complete')));
    res.onData((chunk, isLast) => {
      size += chunk.byteLength;
      exchange.bodyBytes = size;
      onBytes(chunk.byteLength);
      if (size > bytesMax) {
        parts = [];
        // The rest is not read: the answer is sent now, and the connection closed.
        exchange.closesConnection = true;
        settle(tooLarge(bytesMax));
        return;
      }
      if (!isLast) {
        if (chunk.byteLength > 0) parts.push(new Uint8Array(chunk.slice(0)));
        return;
      }
      exchange.isBodyComplete = true;
      const last = new Uint8Array(chunk);
      settle(new RawBody(parts.length === 0 ? last : Buffer.concat([...parts, last], size)));
    });
  });
}

const tooLarge = (bytesMax: number) => invalid('body', `is larger than ${bytesMax} bytes`);

/**
 * Decompresses a gzip body, never to more than `bytesMax`. Names of codings are case-insensitive (RFC 9110 section
 * 8.4.1).
 */
export async function unpackBody(body: RawBody, encoding: string, bytesMax: number): Promise<RawBody | Rejection> {
  const coding = encoding.toLowerCase();
  if (coding === '' || coding === 'identity') return body;
  if (coding !== 'gzip' && coding !== 'x-gzip') return invalid('content-encoding', 'only gzip is accepted');
  if (body.byteLength === 0) return body;
  try {
    return new RawBody(await unpack(body.bytes, { maxOutputLength: bytesMax }));
  } catch (error) {
    const isTooLarge = error instanceof RangeError && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
    return isTooLarge ? tooLarge(bytesMax) : invalid('body', 'is not valid gzip');
  }
}

/** The parameters of a query. A repeated parameter is refused: guessing which one counts would give wrong figures. */
export function parseQuery(text: string): Record<string, string> | Rejection {
  const query: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(text)) {
    if (name === '') return invalid('query', 'contains a parameter without a name');
    if (Object.hasOwn(query, name)) return invalid(name, 'is given more than once');
    if (value.includes('\0')) return invalid(name, 'contains a NUL');
    Object.defineProperty(query, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return query;
}
