import { whole } from './format.ts';
import type { Link } from './link-draft.ts';
import { t } from './texts/text.ts';

/** How many of its max_clicks are used or reserved; empty without max_clicks. */
export function clicksUsed(link: Link | null): string {
  if (!link?.max_clicks || !link.click_limit) return '';
  const { used, held, left } = link.click_limit;
  const max = whole(link.max_clicks);
  if (held + left === 0) return t('link.clicks_all_used', { max });
  return t('link.clicks_used', { used: whole(used), max, left: whole(held + left) });
}
