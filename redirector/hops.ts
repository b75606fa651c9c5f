/**
 * Ends redirects that go round among the hosts of this installation. A redirect to such a host carries the number of redirects before it
 * as a query parameter, which no other destination gets. The API refuses loops that it sees (common/redirect/loops.ts); this is for
 * those over several organizations, or from changes at the same moment.
 */
import type { LinkCache } from '#common/links/link-cache.ts';
import { type Destination, HOPS_PARAMETER } from '#common/redirect/destination.ts';
import { REDIRECT_HOPS_MAX } from '#common/redirect/loops.ts';

const count = new RegExp(`(?:^|&)${HOPS_PARAMETER}=(\\d{1,3})(?=&|$)`);

export class Hops {
  readonly #apps: Pick<LinkCache['apps'], 'keep'>;

  constructor(apps: Pick<LinkCache['apps'], 'keep'>) {
    this.#apps = apps;
  }

  /** The query with which a visit goes on; null if it went round too often. */
  onward(destination: Destination, query: string, nowMs: number): string | null {
    // A host in a loop is visited again and again, so it is in memory.
    const isOwn = destination.kind === 'web' && Boolean(this.#apps.keep(destination.host, nowMs)?.value);
    const rest = withoutHops(query);
    if (!isOwn) return rest;
    const hops = rest === query ? 0 : Number(count.exec(query)?.[1] ?? 0);
    if (hops >= REDIRECT_HOPS_MAX) return null;
    return `${rest}${rest === '' ? '' : '&'}${HOPS_PARAMETER}=${hops + 1}`;
  }
}

/** The query as the visitor's first request had it. */
export function withoutHops(query: string): string {
  if (!query.includes(HOPS_PARAMETER)) return query;
  return query
    .split('&')
    .filter((pair) => !pair.startsWith(`${HOPS_PARAMETER}=`))
    .join('&');
}

/** Only the count, for redirects that pass on nothing else. */
export function onlyHops(query: string): string {
  return query.includes(HOPS_PARAMETER) ? (count.exec(query)?.[0].replace('&', '') ?? '') : '';
}
