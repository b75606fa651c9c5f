/** Resolves links and creates them. Web pages load this only if they have links. */

import { OPEN_BACKOFF_MIN_MS, OPEN_TIMEOUT_MS, OPEN_TRIES_MAX } from './limits.ts';
import { type Evidence, evidenceOf, linkOf, pastedEvidence } from './links.ts';
import type { ClientHost, Outcome } from './platform.ts';
import type { CreatedLink, Link, NewLink } from './types.ts';

/** Tries within a few seconds: a link that is resolved later would lead the person away from something else. */
export async function resolveLink(host: ClientHost, text: string, isPasted: boolean): Promise<Link | null> {
  const { options, platform } = host;
  const evidence = isPasted ? pastedEvidence(text) : evidenceOf(text, options.linkHosts);
  if (!evidence) return null;
  for (let tries = 1; host.state().consent !== 'none'; tries++) {
    const outcome = await host.ask('/sdk/match', evidence, 'match_type', OPEN_TIMEOUT_MS);
    if (outcome === null) break;
    const { kind, retryAfterMs, body } = outcome;
    const isLast = tries === OPEN_TRIES_MAX;
    if (kind === 'ok' && (isLast || !isPending(outcome))) return await takeMatch(host, body, evidence);
    if (isLast || kind === 'hopeless' || retryAfterMs > 0) break;
    const limit = OPEN_BACKOFF_MIN_MS * 2 ** (tries - 1);
    const delayMs = Number(body['retry_after_ms']) || Math.round(platform.random() * limit);
    await new Promise<void>((resolve) => platform.timer(resolve, delayMs));
  }
  return null;
}

/** Takes the answer of a match. */
export async function takeMatch(host: ClientHost, body: Outcome['body'], evidence: Evidence): Promise<Link | null> {
  const state = host.state();
  const isFirstOpen = !state.opened;
  if (isFirstOpen) {
    state.opened = true;
    state.match_id = body['match_id'] as string | undefined;
  }
  const isFirst = !state.first_link && (isFirstOpen || state.consent === 'all');
  const link = linkOf(body, evidence, isFirstOpen, isFirst);
  if (link) {
    state.first_link ??= link;
    state.last_link = link;
    if (link.isDeferred) state.untaken = { link, at: host.platform.now() };
    const { id } = body['link'] as { id: string };
    if (host.platform.kind === 'page') state.click = { link_id: id, click_id: String(body['click_id']) };
  }
  await host.save();
  if (link) host.feed.deliver(link);
  return link;
}

/** The named click is not processed yet. */
export function isPending({ body }: Outcome): boolean {
  return body['reason'] === 'click_pending';
}

/** @throws if the server refuses the link, or can't be reached and there is no fallback link. */
export async function createLink(host: ClientHost, link: NewLink): Promise<CreatedLink> {
  const { fallbackLink, host: server } = host.options;
  const isAllowed = host.state().consent !== 'none';
  const outcome = isAllowed ? await host.connection.ask('/sdk/links', link, 'short_code') : null;
  if (outcome?.kind === 'ok') return { url: String(outcome.body['url']), isLong: false };
  const refusal = (outcome?.body['error'] as { message?: string } | undefined)?.message;
  const problem = refusal ?? (outcome ? `${server} did not answer` : 'there is no consent');
  if (outcome?.kind === 'refused' || outcome?.kind === 'hopeless')
    throw new Error(`The link was not created: ${problem}`);
  if (!fallbackLink) throw new Error(`The link was not created: ${problem}. Set fallbackLink for such cases.`);
  return { url: longForm(fallbackLink, link), isLong: true };
}

/** A link that works without having been created: the fallback link with the fields in its query. */
function longForm(fallback: string, { path, campaign, data }: NewLink): string {
  const fields = { path, campaign, data: data && JSON.stringify(data) };
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    value ? [`sp_${name}=${encodeURIComponent(value)}`] : [],
  );
  return `${fallback}${fallback.includes('?') ? '&' : '?'}${pairs.join('&')}`;
}
