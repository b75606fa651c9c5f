/** Resolves a visit of a Firebase long link. The corresponding link is looked up or created before the answer. */
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { isLongLink, readLongLink, refusedVisitName, snapshotOfLongLink } from '#common/links/long-link.ts';
import type { LongLinks } from '#common/links/long-links.ts';
import type { Visitor } from '#common/redirect/visitor.ts';

/** @property visitor without the parameters of the long link, which are not passed to any destination. */
export type LongLinkVisit =
  | { readonly kind: 'link'; readonly link: LinkSnapshot; readonly visitor: Visitor }
  /** The visitor is redirected in the same way, but there is no link for a click. */
  | { readonly kind: 'without_click'; readonly link: LinkSnapshot; readonly visitor: Visitor }
  | { readonly kind: 'deleted' }
  /** @property name under which the visit is counted. */
  | { readonly kind: 'refused'; readonly name: string; readonly visitor: Visitor };

const ipad = /\biPad\b/;

/** Null if the request is not a long link. @param mayMake returns false for visits that are not made by people. */
export function longLinkVisit(
  links: Pick<LongLinks, 'find'>,
  app: LinkedApp,
  path: string,
  given: Visitor,
  mayMake: () => boolean,
): Promise<LongLinkVisit> | null {
  if (!isLongLink(app, path, given.query)) return null;
  const long = readLongLink(app, given.query);
  if ('reason' in long) {
    return Promise.resolve({ kind: 'refused', name: refusedVisitName(long), visitor: { ...given, query: '' } });
  }
  const visitor = { ...given, query: long.query };
  const onDevice = (link: LinkSnapshot): LinkSnapshot =>
    long.ipad_url !== null && ipad.test(given.user_agent) ? { ...link, ios_url: long.ipad_url } : link;
  return links.find(app, long, mayMake()).then((finding): LongLinkVisit => {
    switch (finding.kind) {
      case 'found':
        return { kind: 'link', link: onDevice(finding.found.link), visitor };
      case 'deleted':
        return { kind: 'deleted' };
      case 'not_made':
        return { kind: 'without_click', link: onDevice(snapshotOfLongLink(app, long)), visitor };
    }
  });
}
