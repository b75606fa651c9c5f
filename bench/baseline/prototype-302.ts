/**
 * The minimal redirector that records clicks: it reads the fields of a click's row, builds the row and appends it,
 * holds the answer until the rows of the turn are written, and syncs them later. It has no links, rules, frames,
 * bounds, or handling of failures. The redirector's cost is divided by its cost as well.
 */
import { fdatasync, openSync, writeSync } from 'node:fs';
import { App, type HttpResponse, us_socket_local_port } from '#common/http/uws.ts';

const [file = '/dev/null'] = process.argv.slice(2);
const journal = openSync(file, 'a');
const syncDelayMs = 8;
const head =
  '302 Found\r\nCache-Control: private, no-store\r\nX-Content-Type-Options: nosniff\r\nLocation: https://example.com/sale?ref=link';

class Held {
  readonly res: HttpResponse;
  isGone = false;

  constructor(res: HttpResponse) {
    this.res = res;
    res.onAborted(() => {
      this.isGone = true;
    });
  }

  answer(): void {
    if (this.isGone) return;
    this.res.cork(() => this.res.writeStatus(head).endWithoutBody(0));
  }
}

let rows = '';
let held: Held[] = [];
let isSyncDue = false;

function commit(): void {
  writeSync(journal, rows, null, 'latin1');
  const answered = held;
  rows = '';
  held = [];
  for (const one of answered) one.answer();
  if (isSyncDue) return;
  isSyncDue = true;
  setTimeout(() => {
    isSyncDue = false;
    fdatasync(journal, () => undefined);
  }, syncDelayMs);
}

App()
  .get('/*', (res, req) => {
    if (held.length === 0) setImmediate(commit);
    const host = req.getHeader('host');
    const path = req.getUrl();
    const ip = new Uint8Array(res.getRemoteAddress()).join('.');
    const isBody = req.getHeader('content-length') !== '';
    const purpose = req.getHeader('sec-purpose') || req.getHeader('purpose');
    rows +=
      `{"time":${Date.now()},"host":"${host}","path":"${path}","ip":"${ip}","user_agent":"${req.getHeader('user-agent')}"` +
      `,"language":"${req.getHeader('accept-language')}","referrer":"${req.getHeader('referer')}"` +
      `,"query":"${req.getQuery() ?? ''}","purpose":"${purpose}","body":${isBody}}\n`;
    held.push(new Held(res));
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (!socket) throw new Error('no port could be opened');
    process.stdout.write(`port ${us_socket_local_port(socket)}\n`);
  });

process.stdin.resume().on('end', () => process.exit(0));
