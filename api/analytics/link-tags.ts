/** Resolves tags to links. Records contain only the link; the current tags of links are in Postgres. */
import type { Filter, LinkTags, Scope } from '#clickhouse/queries/scope.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';
import type { VisibleLinks } from './visible.ts';

/** Maximum links whose ids a query can contain: about 400 kB. */
const taggedLinksMax = 10_000;

/** Converts a filter by tags into a filter by the links that have them. */
export async function linksOfTags(visible: VisibleLinks, { values, isExclusion }: Filter): Promise<Filter | Rejection> {
  const wantsUntagged = values.includes('');
  if (wantsUntagged && values.length > 1) return invalid('tag', 'cannot combine tags with the empty value');
  const found = await visible.taggedLinks(wantsUntagged ? null : values, taggedLinksMax + 1);
  if (found.length > taggedLinksMax) return tooMany();
  return { values: found.map(({ link_id }) => link_id), isExclusion: isExclusion !== wantsUntagged };
}

/** The same question, prepared for grouping by tag. */
export async function withTags<Q extends { readonly scope: Scope; readonly visible: VisibleLinks }>(
  asked: Q,
): Promise<Q | Rejection> {
  const found = await asked.visible.taggedLinks(null, taggedLinksMax + 1);
  if (found.length > taggedLinksMax) return tooMany();
  return { ...asked, scope: { ...asked.scope, tags: setsOf(found) } };
}

function setsOf(links: readonly { readonly link_id: string; readonly tags: readonly string[] }[]): LinkTags {
  // The lists begin with an entry for no link, because ClickHouse rejects empty ones.
  const [link_ids, set_nos]: [string[], number[]] = [[''], [1]];
  const sets: (readonly string[])[] = [['']];
  const known = new Map<string, number>();
  for (const { link_id, tags } of links) {
    const name = JSON.stringify(tags);
    const no = known.get(name) ?? sets.push(tags);
    known.set(name, no);
    link_ids.push(link_id);
    set_nos.push(no);
  }
  return { link_ids, set_nos, sets };
}

const tooMany = () => invalid('tag', `more than ${taggedLinksMax} links have tags: use fewer tags, or campaigns`);
