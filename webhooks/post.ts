/**
 * One request to a receiver, which is not trusted: its name may resolve to an address inside the installation, or to
 * another address at each look-up, and it may redirect, hang, or answer without end.
 *
 * The address is judged in the look-up of the connection itself, so the address that was judged is the one that is
 * connected to. No redirect is followed, and every request has a connection of its own.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { ReachableAddresses } from '#common/reachable-addresses.ts';
import type { PostbackMethod } from '#common/webhooks/postback-template.ts';
import type { WebhookFailure } from '#common/webhooks/webhook-events.ts';

/** Of an answer, this much is kept, and no more is read. */
const ANSWER_BYTES_MAX = 1_024;

/** All addresses of a host name. Rejects if there is none. */
export type Resolve = (host: string) => Promise<readonly string[]>;

export interface PostParts {
  readonly resolve: Resolve;
  readonly reachable: ReachableAddresses;
  readonly timeLimitMs: number;
}

export interface Post {
  readonly method: PostbackMethod;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

export type PostOutcome =
  | { readonly kind: 'answered'; readonly status: number; readonly retryAfter: string; readonly answer: string }
  | { readonly kind: 'failed'; readonly reason: WebhookFailure }
  /** By `signal`. */
  | { readonly kind: 'aborted' };

class AddressRefused extends Error {}
class NameNotResolved extends Error {}

/** Never rejects. */
export function post({ method, url: text, headers, body, signal }: Post, parts: PostParts): Promise<PostOutcome> {
  const url = new URL(text);
  const literal = url.hostname.replace(/^\[(.*)\]$/, '$1');
  // For an address there is no look-up.
  if (isIP(literal) !== 0 && !parts.reachable.has(literal)) {
    return Promise.resolve({ kind: 'failed', reason: 'address_not_allowed' });
  }
  if (signal.aborted) return Promise.resolve({ kind: 'aborted' });
  return new Promise((resolve) => {
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method,
      headers: method === 'GET' ? headers : { ...headers, 'content-length': String(Buffer.byteLength(body)) },
      agent: false,
      lookup: judgedLookup(parts),
    });
    let read: (() => PostOutcome) | undefined;
    const settle = (outcome: PostOutcome) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      request.destroy();
      resolve(outcome);
    };
    const onAbort = () => settle(read?.() ?? { kind: 'aborted' });
    const timer = setTimeout(() => settle(read?.() ?? { kind: 'failed', reason: 'timeout' }), parts.timeLimitMs);
    signal.addEventListener('abort', onAbort);
    request.on('error', (error) => settle(read?.() ?? { kind: 'failed', reason: reasonOf(error) }));
    request.on('response', (response) => {
      read = reader(response, () => settle(read?.() ?? { kind: 'failed', reason: 'connection_failed' }));
    });
    request.end(method === 'GET' ? undefined : body);
  });
}

/** Reads the beginning of the answer, then calls `done`. @returns what was read up to now. */
function reader(response: IncomingMessage, done: () => void): () => PostOutcome {
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    if (bytes >= ANSWER_BYTES_MAX) return;
    chunks.push(chunk.subarray(0, ANSWER_BYTES_MAX - bytes));
    bytes += chunk.length;
    if (bytes >= ANSWER_BYTES_MAX) done();
  });
  for (const event of ['end', 'close', 'error']) response.on(event, done);
  return () => ({
    kind: 'answered',
    status: response.statusCode ?? 0,
    retryAfter: response.headers['retry-after'] ?? '',
    // Postgres stores no NUL.
    answer: Buffer.concat(chunks).toString('utf8').replaceAll('\0', '\ufffd'),
  });
}

function judgedLookup({ resolve, reachable }: PostParts): LookupFunction {
  return (host, options, callback) => {
    resolve(host).then(
      (addresses) => {
        const allowed = addresses.filter((address) => reachable.has(address));
        const [first] = allowed;
        if (first === undefined) callback(new AddressRefused(), '');
        else if (options.all === true) {
          callback(
            null,
            allowed.map((address) => ({ address, family: isIP(address) })),
          );
        } else callback(null, first, isIP(first));
      },
      () => callback(new NameNotResolved(), ''),
    );
  };
}

function reasonOf(error: Error): WebhookFailure {
  if (error instanceof AddressRefused) return 'address_not_allowed';
  if (error instanceof NameNotResolved) return 'name_not_resolved';
  const code = 'code' in error ? String(error.code) : '';
  return /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|EPROTO)/.test(code)
    ? 'tls_failed'
    : 'connection_failed';
}
