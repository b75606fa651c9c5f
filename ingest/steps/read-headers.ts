/** Columns of the request's headers: the visitor's language and the host of the referring page. */
import { type ByteText, stringBytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import { preferredLanguage } from '#common/redirect/visitor.ts';
import type { Step } from './step.ts';

const languageTag = /^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,3}/;
const schemeAndHost = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?(\[[0-9a-f:.]+\]|[^/?#:@]+)/i;
const hostCharsMax = 253;

/** The most preferred language of an Accept-Language header, spelled as in BCP 47: `pt-BR`. */
export function firstLanguage(header: string): string {
  const tag = languageTag.exec(preferredLanguage(header))?.[0] ?? '';
  const [language = '', ...subtags] = tag.split('-');
  return [language.toLowerCase(), ...subtags.map((part) => (part.length === 2 ? part.toUpperCase() : part))].join('-');
}

/** The host of a referrer in lower case; empty if it has none. Also works for `android-app://`. */
export function referrerHost(referrer: string): string {
  if (referrer === '') return '';
  const host = schemeAndHost.exec(referrer)?.[1]?.toLowerCase() ?? '';
  return host.length > hostCharsMax ? '' : host;
}

interface HeaderColumn {
  readonly encoded: ByteText;
  readonly bytes: number;
  isUsed: boolean;
}

/** Enough, because there are few distinct headers. */
const headersMax = 20_000;
const bytesMax = 32_000_000;
/** Bytes of an entry in addition to its texts. */
const entryBytes = 150;
const none = stringBytes('');

export function readHeaders(): Step<'read_headers'> {
  const languages = new BoundedMap<HeaderColumn>(headersMax, bytesMax);
  const hosts = new BoundedMap<HeaderColumn>(headersMax, bytesMax);
  return {
    name: 'read_headers',
    columns: ['language', 'referrer_host'],
    reads: ['language', 'referrer'],
    columnsOf: ({ language, referrer }) =>
      cached(languages, language, firstLanguage) + cached(hosts, referrer, referrerHost),
  };
}

function cached(known: BoundedMap<HeaderColumn>, header: string, read: (header: string) => string): ByteText {
  if (header === '') return none;
  let column = known.get(header);
  if (column === undefined) {
    const encoded = stringBytes(read(header));
    column = { encoded, bytes: entryBytes + 2 * (header.length + encoded.length), isUsed: false };
    known.set(header, column);
  }
  return column.encoded;
}
