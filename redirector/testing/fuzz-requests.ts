/** Generates requests for fuzzing. Each part is usually valid and sometimes not, and so is the split into packets. */

export interface Plan {
  readonly bytes: Buffer;
  /** Boundaries of the pieces, which are written separately. Sending ends at the last one, which may be too early. */
  readonly pieces: readonly number[];
  readonly ending: 'open' | 'cut' | 'half closed';
  readonly isHead: boolean;
  /** One number for each request. */
  readonly numbers: readonly string[];
}

type Random = () => number;

const methods = ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'PATCH', 'get', 'FROB', '', 'G\0T', 'GET GET'];
const versions = ['HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/1.2', 'HTTP/11', 'http/1.1', 'HTTP/1.1 ', 'FTP/1.1', ''];
const queries = [
  '%0d%0aSet-Cookie:%20a=b',
  '%0D%0A%0D%0A<script>',
  'a=\nX-Evil: 1',
  'utm_source=%0d%0aX-Evil:1',
  'utm_campaign=%00%ff%c0%80',
  'x=%E5%98%8A%E5%98%8DX-Evil:1',
  '%',
  '%2',
  '%zz=%u0041',
  '\xff\xfe=\xc0\x80',
  'url=https://evil.example/&redirect=//evil.example',
  'fallback_url=javascript:alert(1)',
  '#@evil.example/',
  '&&&===&=',
  '__proto__=1&constructor=2&toString=3',
  '\0',
  '\\..\\..',
  'a[]=1&a[]=2&a=3',
  '+%2B%20 ',
];
const agents = [
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  'facebookexternalhit/1.1',
  '',
  'a\0b',
  '\xf0\x28\x8c\xbc',
  '"}\\,{"v":1}',
  'Android'.repeat(100),
];
const oddHeaders = [
  ': x',
  ' folded: yes',
  'X-Space : 1',
  'X-Bare: a\nX-Evil: b',
  'X-Return: a\rX-Evil: b',
  'X-Nul: a\0b',
  'NoColon',
  'Content-Length: 0\r\nContent-Length: 7',
  'Content-Length: -1',
  'Content-Length: +5',
  'Content-Length: 0x10',
  'Content-Length: 5, 5',
  'Content-Length: 99999999999999999999',
  'Transfer-Encoding: chunked\r\nContent-Length: 3',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: \tchunked',
  'Transfer-Encoding: identity, chunked',
  'Transfer-Encoding: xchunked',
  'Connection: close',
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13',
  'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__',
  'Expect: 100-continue',
  'Accept: application/json',
  'Accept: */*;q=\xff',
  'Sec-Purpose: prefetch',
  'X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https',
  'Forwarded: for=evil;host=evil.example',
  'Host: evil.example',
  'Referer: https://a.example/\x80%0d%0a',
  'Accept-Language: xx-\xff,*;q=1e400',
  'Range: bytes=0-,-1',
  'If-None-Match: *',
  'Cookie: a=\x01\x02\x7f',
];

/** Plans one connection: usually one request, sometimes several. `next` is the number of the first. */
export function planOf(random: Random, target: { host: string; code: string }, next: number): Plan {
  const isHead = random() < 0.06;
  const count = random() < 0.85 ? 1 : 2 + Math.floor(random() * 3);
  const numbers = Array.from({ length: count }, (_, at) => `${isHead ? 'h' : 'r'}${next + at}`);
  const texts = numbers.map((number) => requestOf(random, target, number, isHead));
  const bytes = Buffer.from(texts.join(''), 'latin1');
  if (!isHead && random() < 0.04) damage(random, bytes);
  const isCut = random() < 0.08;
  const until = isCut ? Math.floor(random() * bytes.length) : bytes.length;
  const middle = random() < 0.25 ? Array.from({ length: 3 }, () => Math.floor(random() * until)) : [];
  const pieces = [0, ...middle.sort((a, b) => a - b), until];
  const ending = isCut && random() < 0.7 ? 'cut' : random() < 0.05 ? 'half closed' : 'open';
  return { bytes, pieces, ending, isHead, numbers };
}

/** Corrupts bytes, but not the request's number, which identifies its answer. */
function damage(random: Random, bytes: Buffer): void {
  for (let times = 1 + Math.floor(random() * 4); times > 0; times--) {
    const at = Math.floor(random() * bytes.length);
    const byte = bytes[at] ?? 0;
    const isNumber = (byte >= 48 && byte <= 57) || byte === 110 || byte === 61 || byte === 114 || byte === 104;
    if (!isNumber) bytes[at] = Math.floor(random() * 256);
  }
}

function requestOf(
  random: Random,
  { host, code }: { host: string; code: string },
  number: string,
  isHead: boolean,
): string {
  const pick = <T>(from: readonly T[], otherwise: T): T => from[Math.floor(random() * from.length)] ?? otherwise;
  const method = isHead ? 'HEAD' : random() < 0.88 ? 'GET' : pick(methods, 'GET');
  const version = random() < 0.93 ? 'HTTP/1.1' : pick(versions, '');
  const extra = random() < 0.4 ? `&${pick(queries, '')}` : '';
  const target = random() < 0.75 ? `/${code}?n=${number}${extra}` : oddTarget(random, code, number);
  const hosts = [
    ...[`${host}:80`, host.toUpperCase(), `${host}.`, ` ${host}`, `${host}\0`, `a@${host}`, `${host}/x`, '[::1]:80'],
    ...['evil.example', '', '..', '%00', 'a'.repeat(3_000), `${host},evil.example`, `${host}\r\nHost: ${host}`],
  ];
  const lines = random() < 0.96 ? [`Host: ${random() < 0.9 ? host : pick(hosts, '')}`] : [];
  if (random() < 0.9) lines.push(`User-Agent: ${pick(agents, '')}`);
  for (let times = Math.floor(random() ** 3 * 4); times > 0; times--) lines.push(pick(oddHeaders, ''));
  if (random() < 0.01) lines.push(...Array.from({ length: 50 + Math.floor(random() * 150) }, (_, at) => `X-${at}: 1`));
  if (random() < 0.01) lines.push(`X-Large: ${'x'.repeat(Math.floor(random() * 40_000))}`);
  if (random() < 0.5) lines.sort(() => random() - 0.5);
  const end = random() < 0.97 ? '\r\n' : pick(['\n', '\r', '\r\n\0'], '\n');
  const head = `${method} ${target} ${version}${end}${lines.join(end)}${end}${end}`;
  if (isHead || random() > 0.08) return head;
  // A body that looks like another request: an answer to it would be one too many.
  const body = `GET /${code}?n=s${number} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: ${agents[2]}\r\n\r\n`;
  const length = pick([body.length, body.length + 5, 3, 0], 0);
  const sized = `${method} ${target} ${version}\r\n${lines.join('\r\n')}\r\nContent-Length: ${length}\r\n\r\n`;
  const chunked = `${method} ${target} ${version}\r\n${lines.join('\r\n')}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const size = pick([body.length.toString(16), 'ffffffffffffffff', '-1', '0x5', 'zz', '0'], '0');
  return random() < 0.6 ? sized + body : `${chunked}${size}\r\n${body}\r\n0\r\n\r\n`;
}

function oddTarget(random: Random, code: string, number: string): string {
  const query = `?n=${number}`;
  const targets = [
    `/${code}/${query}`,
    `//${code}${query}`,
    `/./${code}${query}`,
    `/x/../${code}${query}`,
    `/%2e%2e/${code}${query}`,
    `/%${code.charCodeAt(0).toString(16)}${code.slice(1)}${query}`,
    `/${code}%00${query}`,
    `/${code}\0${query}`,
    `/${code}%0d%0aX-Evil:%201${query}`,
    `/${code}\t${query}`,
    `/${code.toUpperCase()}${query}`,
    `/\\${code}${query}`,
    `http://evil.example/${code}${query}`,
    `https://evil.example:443/${code}${query}`,
    `/unknown${Math.floor(random() * 1e6)}${query}`,
    '/robots.txt',
    '/favicon.ico',
    '/?root=1',
    '/.well-known/assetlinks.json',
    '/.well-known/apple-app-site-association',
    '/.well-known/../x',
    '*',
    '',
    'evil.example:443',
    `/${'a'.repeat(Math.floor(random() * 20_000))}`,
    `/${code}?${'%0d%0a'.repeat(Math.floor(random() * 3_000))}`,
    `/${code}?n=${number}&x=${'y'.repeat(Math.floor(random() * 14_000))}`,
    `/\xff\xfe\xc0${query}`,
    `/${code}??${query}`,
    `/${code};a=b${query}`,
    `/${code}#frag`,
    '/__proto__',
    '/constructor',
    `/../../../../etc/passwd${query}`,
  ];
  return targets[Math.floor(random() * targets.length)] ?? '/';
}
