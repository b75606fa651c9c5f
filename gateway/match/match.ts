/** POST /sdk/match: matches a device to the click or link that led to the app. */
import { isoTime } from '#common/clock.ts';
import { Rejection, unavailable } from '#common/http/rejection.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { sdkRoute } from '#gateway/deps.ts';
import { installNameOf } from '#gateway/install/install-store.ts';
import { linkBrief } from '#gateway/links/link-brief.ts';
import type { LinkFacts } from '#gateway/links/link-facts.ts';
import { queryParams } from './evidence.ts';
import type { Match } from './match-result.ts';
import { MatchAnswerSchema, MatchBody } from './match-schema.ts';
import { ASK_AGAIN_MS } from './young-clicks.ts';

export const matchDevice = sdkRoute({
  method: 'POST',
  path: '/sdk/match',
  operationId: 'matchDevice',
  caller: 'app',
  limit: 'match',
  tag: 'SDK',
  summary: 'Match a device to a click',
  description:
    'Evidence that names a click or a link decides the match; if that click cannot be used, there is no match. Without evidence, the device is compared with recent clicks. A click is ' +
    'matched to at most one device, and if two links are equally likely, neither is matched. Repeating the request returns the ' +
    'first answer, unless the device brings a new click: then that click is matched, and recorded as a re-engagement if the install is known.',
  body: MatchBody,
  bodyExample: {
    platform: 'ios',
    os_version: '17.5.1',
    device_model: 'iPhone15,2',
    language: 'en-US',
    device_id: 'device-7',
  },
  answers: { 200: { description: 'The result; `matched` says whether there is a match.', schema: MatchAnswerSchema } },
  async handle({ matching, links, shortUrl }, { caller, body, ip, header }) {
    const device = body.device_id || body.install_id || '';
    const asker = { app: caller.app, ip, device, user_agent: header('user-agent'), install_name: installNameOf(body) };
    const match = await matching.match(body, asker);
    if (match instanceof Rejection) return match;
    const link = await links.find(match.app_id, match.link_id);
    if (link === undefined) return unavailable();
    return { status: 200, body: matchAnswer(match, link, shortUrl) };
  },
});

function matchAnswer(match: Match, link: LinkFacts | null, shortUrl: ShortUrl): object {
  const matched = match.match_type !== 'none';
  return {
    matched,
    match_id: match.match_id,
    match_type: match.match_type,
    match_guaranteed: matched && match.match_type !== 'probabilistic',
    confidence: match.confidence,
    matched_factors: match.matched_factors,
    ambiguous: match.competing_links > 0,
    competing_links: match.competing_links,
    click_id: match.click_id || null,
    clicked_at: match.clicked_at === 0 ? null : isoTime(match.clicked_at),
    link: link ? linkBrief(link, shortUrl) : null,
    path: link?.path ?? null,
    data: link?.data ?? null,
    query_params: queryParams(match.query),
    reason: match.reason ?? null,
    retry_after_ms: match.reason === 'click_pending' ? ASK_AGAIN_MS : null,
  };
}
