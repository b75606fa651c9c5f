/** Columns made of request headers: language and referrer_host. */
import { LRUCache } from 'lru-cache';
import type { Step } from '#ingest/pipeline.ts';

const languageTag = /^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,3}/;
const schemeAndHost = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?(\[[0-9a-f:.]+\]|[^/?#:@]+)/i;
const hostCharsMax = 253;

/** The first language of an Accept-Language header, spelled as BCP 47 does: `pt-BR`. */
export function firstLanguage(header: string): string {
  const tag = languageTag.exec(header.trimStart())?.[0] ?? '';
  const [language = '', ...subtags] = tag.split('-');
  return [language.toLowerCase(), ...subtags.map((part) => (part.length === 2 ? part.toUpperCase() : part))].join('-');
}

/** The host of a referrer in small letters; empty if it has none. Works for `android-app://` too. */
export function referrerHost(referrer: string): string {
  if (referrer === '') return '';
  const host = schemeAndHost.exec(referrer)?.[1]?.toLowerCase() ?? '';
  return host.length > hostCharsMax ? '' : host;
}

/** Columns language and referrer_host, kept per distinct header: there are few. */
export function headersStep(headersMax: number): Step {
  const languages = new LRUCache<string, string>({ max: headersMax });
  const hosts = new LRUCache<string, string>({ max: headersMax });
  return (clicks) => {
    for (const { click, row } of clicks) {
      row.language = kept(languages, click.language, firstLanguage);
      row.referrer_host = kept(hosts, click.referrer, referrerHost);
    }
  };
}

function kept(known: LRUCache<string, string>, header: string, read: (header: string) => string): string {
  if (header === '') return '';
  let value = known.get(header);
  if (value === undefined) {
    value = read(header);
    known.set(header, value);
  }
  return value;
}
