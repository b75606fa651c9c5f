/**
 * The record of an install, or of an opening of an installed app by a link: the device's description, and its click.
 */
import { type CampaignField, type CampaignTexts, utmFrom } from '#common/campaign-fields.ts';
import { type InstallRecord, installTextMax } from '#common/log/install-record.ts';
import { cut } from '#common/log/record.ts';
import { effectiveUtm } from '#common/redirect/destination.ts';
import { iosVersionText } from '#common/user-agent.ts';
import type { LinkFacts } from '#gateway/links/link-facts.ts';
import type { Asker } from '#gateway/match/asker.ts';
import type { Match } from '#gateway/match/match-result.ts';
import type { MatchFields } from '#gateway/match/match-schema.ts';

/** The fields of a link in a record, other than its id. */
export type LinkCampaign = Partial<Pick<LinkFacts, CampaignField>>;

export interface Attribution<Link = LinkFacts> {
  readonly match: Match | null;
  readonly link: Link | null;
}

type OwnFields = Pick<InstallRecord, 'install_id' | 'time' | 'installed_at' | 'user_id' | 'trigger' | 'properties'>;

/** The campaign of a click: that of its link, with the utm parameters of its own query, as in the click's record. */
export function campaignOf(link: LinkCampaign | null, query: string): CampaignTexts {
  const utm = effectiveUtm(
    utmFrom((name) => link?.[name] ?? ''),
    query,
  );
  return { campaign: link?.campaign ?? '', ...utmFrom((name) => cut(utm[name], installTextMax[name])) };
}

export function deviceRecord(
  fields: MatchFields,
  { app, ip }: Asker,
  { match, link }: Attribution<LinkCampaign>,
  own: OwnFields,
): InstallRecord {
  const attributed = match !== null && match.match_type !== 'none';
  return {
    ...own,
    organization_id: app.organization_id,
    app_id: app.app_id,
    link_id: match?.link_id ?? '',
    click_id: match?.click_id ?? '',
    device_id: fields.device_id ?? '',
    match_id: match?.match_id ?? '',
    match_type: match?.match_type ?? 'none',
    match_guaranteed: attributed && match.match_type !== 'probabilistic',
    confidence: match?.confidence ?? 0,
    attributed,
    platform: fields.platform,
    os_version: fields.platform === 'ios' ? iosVersionText(fields.os_version ?? '') : (fields.os_version ?? ''),
    device_model: fields.device_model ?? '',
    app_version: fields.app_version ?? '',
    sdk_name: fields.sdk_name ?? '',
    sdk_version: fields.sdk_version ?? '',
    language: fields.language ?? '',
    ip,
    privacy_mode: app.settings.privacy_mode,
    ...campaignOf(link, match?.query ?? ''),
  };
}
