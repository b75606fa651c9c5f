/** Query parameters that are passed on to a link's destination but never recorded. */
import { pairName } from '#common/query-pair.ts';

/** A name that is percent-encoded, in full or in part. */
const encodedName = /(?:^|&)[^=&]*[%+]/;

export class QueryFilter {
  readonly #names: ReadonlySet<string>;
  readonly #plain: RegExp | null;

  /** @param names case-insensitive. */
  constructor(names: readonly string[]) {
    this.#names = new Set(names.map((name) => name.toLowerCase()));
    const alternatives = [...this.#names].map((name) => name.replaceAll(/[^\w]/g, String.raw`\$&`)).join('|');
    this.#plain = names.length === 0 ? null : new RegExp(`(?:^|&)(?:${alternatives})(?:=|&|$)`, 'i');
  }

  /** The query, without its question mark, as it may be recorded. */
  recorded(query: string): string {
    if (query === '' || this.#plain === null) return query;
    if (!this.#plain.test(query) && !encodedName.test(query)) return query;
    return query
      .split('&')
      .filter((pair) => !this.#names.has(pairName(pair).toLowerCase()))
      .join('&');
  }
}
