/** A link as the SDK endpoints return it. */
import { utmFrom } from '#common/campaign-fields.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import type { LinkFacts } from './link-facts.ts';

export function linkBrief(link: LinkFacts, shortUrl: ShortUrl): object {
  const { id, host, short_code, path, campaign } = link;
  const utm = utmFrom((name) => link[name]);
  return { id, short_code, url: shortUrl(host, short_code), path, campaign, ...utm };
}
