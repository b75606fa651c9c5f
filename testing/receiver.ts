/** A receiver of webhooks on loopback, which behaves as a test says. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
  /** How it answers; 204 by default. An answer that is never written hangs. */
  answer: (response: ServerResponse, request: Received) => void;
  /** Ids of the messages that it got. */
  ids(): string[];
  stop(): Promise<void>;
}

/** @param port 0: any free one. */
export async function receiverForTest(host = '127.0.0.1', port = 0): Promise<Receiver> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      const got = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body };
      receiver.received.push(got);
      receiver.answer(response, got);
    });
  });
  await new Promise<void>((listening, fail) => {
    server.once('error', fail);
    server.listen(port, host, listening);
  });
  const bound = (server.address() as AddressInfo).port;
  const receiver: Receiver = {
    url: `http://${host}:${bound}/hook`,
    port: bound,
    received: [],
    answer: (response) => response.writeHead(204).end(),
    ids: () => receiver.received.map(({ headers }) => String(headers['webhook-id'])),
    stop: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
  return receiver;
}
