/**
 * Sends one request to an untrusted server that a tenant chose: its name may resolve to an internal address, or to a
 * different address at each lookup, and it may redirect, hang, or send an endless response.
 *
 * The address is checked in the lookup of the connection itself, so that the checked address is the one that is
 * connected to. Redirects are not followed, and every request has its own connection.
 */
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { Resolve } from './host-addresses.ts';
import type { ReachableAddresses } from './reachable-addresses.ts';

/** Why a request got no response. */
export const outboundFailures = [
  'timeout',
  'address_not_allowed',
  'name_not_resolved',
  'tls_failed',
  'connection_failed',
] as const;
export type OutboundFailure = (typeof outboundFailures)[number];

export interface OutboundRules {
  readonly resolve: Resolve;
  readonly reachable: ReachableAddresses;
  /** Time limit for the whole request, from the lookup to the last byte that is read. */
  readonly timeLimitMs: number;
}

export interface OutboundRequest {
  readonly method: 'GET' | 'POST';
  /** The caller decides whether http:// is accepted. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Not sent with a GET. */
  readonly body?: string;
  /** Maximum bytes of the response body that are read. 0: the response counts as soon as its head has arrived. */
  readonly answerBytesMax: number;
  readonly signal?: AbortSignal;
}

export interface OutboundAnswer {
  readonly kind: 'answered';
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** False if the body is longer than `answerBytesMax`, or ended early. */
  readonly isWhole: boolean;
}

export type OutboundOutcome =
  | OutboundAnswer
  | { readonly kind: 'failed'; readonly reason: OutboundFailure }
  /** By `signal`. */
  | { readonly kind: 'aborted' };

class AddressRefused extends Error {}
class NameNotResolved extends Error {}

/** Never rejects. A response whose body does not end within the time limit counts, with the part that was read. */
export function outboundRequest(
  { method, url: text, headers, body = '', answerBytesMax, signal }: OutboundRequest,
  rules: OutboundRules,
): Promise<OutboundOutcome> {
  const url = new URL(text);
  const literal = url.hostname.replace(/^\[(.*)\]$/, '$1');
  // For an IP address there is no lookup.
  if (isIP(literal) !== 0 && !rules.reachable.has(literal)) {
    return Promise.resolve({ kind: 'failed', reason: 'address_not_allowed' });
  }
  if (signal?.aborted) return Promise.resolve({ kind: 'aborted' });
  return new Promise((resolve) => {
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method,
      headers: method === 'GET' ? headers : { ...headers, 'content-length': String(Buffer.byteLength(body)) },
      agent: false,
      lookup: judgedLookup(rules),
    });
    let read: (() => OutboundAnswer) | undefined;
    const settle = (outcome: OutboundOutcome) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      request.destroy();
      resolve(outcome);
    };
    const onAbort = () => settle(read?.() ?? { kind: 'aborted' });
    const timer = setTimeout(() => settle(read?.() ?? { kind: 'failed', reason: 'timeout' }), rules.timeLimitMs);
    signal?.addEventListener('abort', onAbort);
    request.on('error', (error) => settle(read?.() ?? { kind: 'failed', reason: reasonOf(error) }));
    request.on('response', (response) => {
      read = reader(response, answerBytesMax, () => {
        settle(read?.() ?? { kind: 'failed', reason: 'connection_failed' });
      });
      if (answerBytesMax === 0) settle(read());
    });
    request.end(method === 'GET' ? undefined : body);
  });
}

/** Reads the start of the response, then calls `done`. @returns what was read so far. */
function reader(response: IncomingMessage, bytesMax: number, done: () => void): () => OutboundAnswer {
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    if (bytes > bytesMax) return;
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > bytesMax) done();
  });
  for (const event of ['end', 'close', 'error']) response.on(event, done);
  return () => ({
    kind: 'answered',
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: Buffer.concat(chunks).subarray(0, bytesMax),
    isWhole: response.complete && bytes <= bytesMax,
  });
}

function judgedLookup({ resolve, reachable }: OutboundRules): LookupFunction {
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

function reasonOf(error: Error): OutboundFailure {
  if (error instanceof AddressRefused) return 'address_not_allowed';
  if (error instanceof NameNotResolved) return 'name_not_resolved';
  const code = 'code' in error ? String(error.code) : '';
  return /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|EPROTO)/.test(code)
    ? 'tls_failed'
    : 'connection_failed';
}
