/** A link as the SDK endpoints return it. */
import type { ShortUrl } from '#common/links/short-url.ts';
import type { LinkFacts } from './link-facts.ts';

export function linkBrief(link: LinkFacts, shortUrl: ShortUrl): object {
  const { id, host, short_code, path, campaign, title } = link;
  const { utm_source, utm_medium, utm_campaign, utm_term, utm_content } = link;
  const utm = { utm_source, utm_medium, utm_campaign, utm_term, utm_content };
  return { id, short_code, url: shortUrl(host, short_code), path, campaign, title, ...utm };
}
