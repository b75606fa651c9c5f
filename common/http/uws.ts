/** The only access to uWebSockets.js, whose package exports either names or a default, depending on the packaging. */
import type * as Uws from 'uWebSockets.js';
import type { AppOptions, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import type { Certificate } from '#common/process/certificate-files.ts';

const namespace: typeof Uws = await import('uWebSockets.js').catch((error: unknown) => {
  const reason = /\nError: (.*)/.exec(String(error))?.[1] ?? String(error);
  throw new Error(
    `uWebSockets.js has no binary that loads in Node ${process.version} on ${process.platform} ${process.arch} (${reason}): ` +
      "use Node 22, or npm's scripts (npm start, npm test), which install one.",
  );
});
const uws = 'default' in namespace ? (namespace as unknown as { default: typeof Uws }).default : namespace;

export const { App, us_listen_socket_close, us_socket_local_port } = uws;

// Undocumented, but the only way: without it each answer names the server and its version (setSilent of its C++ loop).
(uws as unknown as { _cfg?: (key: string) => void })._cfg?.('999999990007');

/** For TLS 1.2 only AEAD ciphers with forward secrecy; TLS 1.3 has no others. */
const ciphers = [
  ...['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
  ...['ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-RSA-AES256-GCM-SHA384'],
  ...['ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
].join(':');

type PemPair = Pick<Certificate, 'certFile' | 'keyFile'>;

export function tlsOptions({ certFile, keyFile }: PemPair): AppOptions {
  return { cert_file_name: certFile, key_file_name: keyFile, ssl_ciphers: ciphers };
}

/** A server with TLS 1.2 and 1.3. @throws if the files are not a matching PEM pair. */
export function tlsApp(pair: PemPair): TemplatedApp {
  try {
    return uws.SSLApp(tlsOptions(pair));
  } catch {
    // uWebSockets.js only reports that something failed.
    throw new Error(`TLS_CERT_FILE (${pair.certFile}) and TLS_KEY_FILE (${pair.keyFile}) cannot be read as a PEM pair`);
  }
}

/** A constant text for uWebSockets.js, which converts a string at each call; that takes half of the time of reading a header. */
export function asBytes(text: string): ArrayBuffer {
  return new TextEncoder().encode(text).slice().buffer;
}

/** The value of Strict-Transport-Security; empty if it is off. */
export function hstsValue(seconds: number): string {
  return seconds === 0 ? '' : `max-age=${seconds}`;
}
export type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';

/** Missing from the package's types: listen with a host and options; 1 does not share the port with other processes. */
type Listen = (
  host: string,
  port: number,
  options: 0 | 1,
  callback: (socket: us_listen_socket | false) => void,
) => void;

/**
 * Listens on a port in this turn. Unless `isShared`, nothing else can listen on it.
 * @throws if the port is in use or not allowed.
 */
export function listenOn(app: TemplatedApp, host: string, port: number, isShared: boolean): us_listen_socket {
  const listen: Listen = app.listen.bind(app) as unknown as Listen;
  let socket: us_listen_socket | false = false;
  listen(host, port, isShared ? 0 : 1, (opened) => {
    socket = opened;
  });
  if (!socket) throw new Error(`port ${port} on ${host} is in use or not allowed`);
  return socket;
}

/**
 * Ends the answer to a HEAD whose GET would have `bytes` bytes; null: a number that is not known. `endWithoutBody(bytes)` of uWebSockets.js v20 waits for those
 * bytes forever: the connection cannot be reused, and without an abort handler the process exits.
 * @param isLast closes the connection; the length is then 0, because only an answer with a length can close it.
 */
export function endHead(res: HttpResponse, bytes: number | null, isLast: boolean): void {
  if (isLast) res.endWithoutBody(0, true);
  else if (bytes === null) res.endWithoutBody();
  else res.writeHeader('Content-Length', String(bytes)).endWithoutBody();
}
