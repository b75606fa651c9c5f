import { whole } from './format.ts';
import type { Link } from './link-draft.ts';
import { t } from './texts/text.ts';

/** How many of its max_clicks are used or reserved; empty without max_clicks. */
export function clicksUsed(link: Link | null): string {
  if (!link?.max_clicks || !link.click_limit) return '';
  const { used, held, left, given_up } = link.click_limit;
  const max = whole(link.max_clicks);
  const isExact = held + left === 0 && used <= link.max_clicks;
  const text = isExact
    ? t('link.clicks_all_used', { max })
    : t('link.clicks_used', { used: whole(used), max, left: whole(held + left) });
  return given_up === 0 ? text : `${text} ${t('link.clicks_given_up', { clicks: whole(given_up) })}`;
}
