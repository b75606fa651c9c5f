/** Parses all bytes received on a connection strictly by RFC 9112: any remainder was injected by a visitor. */

export interface Answer {
  readonly status: number;
  /** Empty if there is none. */
  readonly location: string;
}

const statuses = new Set([200, 204, 302, 400, 404, 405, 410, 413, 414, 431, 500, 503, 505]);
/** All headers that an answer may have. */
const headers = new Set([
  ...['location', 'cache-control', 'content-length', 'content-type', 'x-content-type-options', 'vary', 'allow'],
  ...['content-security-policy', 'retry-after', 'connection', 'date', 'uwebsockets'],
]);
const places = new Set(['example.com', 'play.google.com']);

/** Returns the answers, and describes the first invalid one; empty if all are valid. */
export function readAnswers(text: string, isHead: boolean): { answers: Answer[]; fault: string } {
  const answers: Answer[] = [];
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\r\n\r\n', at);
    if (end === -1) return { answers, fault: `a head that does not end: ${JSON.stringify(text.slice(at, at + 80))}` };
    if (text.startsWith('HTTP/1.1 100 Continue\r\n\r\n', at)) {
      at = end + 4;
      continue;
    }
    const [first = '', ...lines] = text.slice(at, end).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) [\x20-\x7e]*$/.exec(first)?.[1]);
    if (!statuses.has(status)) return { answers, fault: `a status line like ${JSON.stringify(first)}` };
    const fields = new Map<string, string>();
    for (const line of lines) {
      const [, name = '', value = ''] = /^([A-Za-z-]+): ([\x20-\x7e]*)$/.exec(line) ?? [];
      const key = name.toLowerCase();
      if (!headers.has(key) || fields.has(key)) return { answers, fault: `a header like ${JSON.stringify(line)}` };
      fields.set(key, value);
    }
    const location = fields.get('location') ?? '';
    if (status === 302 && !isPlace(location)) return { answers, fault: `a location like ${JSON.stringify(location)}` };
    if (fields.get('connection') === 'close' && !fields.has('content-length')) {
      // uWebSockets.js itself answered before it closed the connection; the rest is its HTML page.
      const page = text.slice(end + 4);
      answers.push({ status, location });
      return {
        answers,
        fault: /^(<h1>[\w ]+<\/h1>(<p>[\w/. ]+<\/p>)?<hr><i>[\w/. ]+<\/i>)?$/.test(page) ? '' : `a page like ${page}`,
      };
    }
    const length = Number(fields.get('content-length') ?? 0);
    const hasBody = !isHead && status !== 204 && status !== 302;
    at = end + 4 + (hasBody ? length : 0);
    if (at > text.length) return { answers, fault: `a body shorter than its length ${length}` };
    answers.push({ status, location });
  }
  return { answers, fault: '' };
}

/** An https URL of the test links, in the URL parser's form. */
function isPlace(location: string): boolean {
  if (!URL.canParse(location)) return false;
  const url = new URL(location);
  return url.protocol === 'https:' && places.has(url.host) && url.href === location && url.username === '';
}
