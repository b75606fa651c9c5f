/** A link as Postgres stores it and as the API returns it. */
import { Type } from 'typebox';
import type { UtmField } from '#common/campaign-fields.ts';
import { linkFields, nullable } from './link-fields.ts';
import type { LinkRule } from './link-rule.ts';
import type { ShortUrl } from './short-url.ts';
import type { TapPageMode } from './tap-page.ts';

/** A row of `links`, with the host of its app. */
export interface LinkRow extends Readonly<Record<UtmField, string | null>> {
  readonly id: string;
  readonly organization_id: string;
  readonly app_id: string;
  readonly host: string;
  readonly short_code: string;
  readonly other_codes: readonly string[];
  readonly path: string;
  readonly campaign: string | null;
  /**
   * `visit`: created by the first visit to a Firebase long link; `learned`: learned from the app's old service at the
   * first visit.
   */
  readonly source: 'dashboard' | 'sdk' | 'import' | 'visit' | 'learned';
  readonly archived: boolean;
  readonly title: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  readonly tags: readonly string[];
  readonly external_id: string | null;
  readonly ios_url: string | null;
  readonly android_url: string | null;
  readonly fallback_url: string | null;
  readonly og_title: string | null;
  readonly og_description: string | null;
  readonly og_image_url: string | null;
  readonly expires_at: Date | null;
  readonly expired_url: string | null;
  readonly tap_page: TapPageMode | null;
  readonly rules: readonly LinkRule[] | null;
  readonly max_clicks: number | null;
  /** Click counts reported by redirectors; null without a limit, absent in webhooks. */
  readonly click_shares?: undefined | Omit<ClickLimit, 'left'> | null;
  readonly has_password: boolean;
  readonly clicks_before: number | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/**
 * The clicks of a link's max_clicks that redirectors have used and reserved, as one JSON object. @param link an SQL
 * expression.
 */
export function clickSharesOf(link: string): string {
  return `SELECT jsonb_build_object(
      'used', coalesce(sum(CASE WHEN s.is_given_up THEN s.granted - s.returned ELSE s.used END), 0),
      'held', coalesce(sum(s.granted - s.returned - s.used) FILTER (WHERE NOT s.is_given_up), 0),
      'given_up', coalesce(sum(s.granted - s.returned - s.used) FILTER (WHERE s.is_given_up), 0))
    FROM click_shares s WHERE s.link_id = ${link}`;
}

/** How many of a link's max_clicks are used. */
export interface ClickLimit {
  readonly used: number;
  readonly held: number;
  readonly left: number;
  /** The part of `used` that a redirector held that is gone. */
  readonly given_up: number;
}

export function clickLimitOf({
  max_clicks,
  click_shares,
}: Pick<LinkRow, 'max_clicks' | 'click_shares'>): ClickLimit | null {
  if (max_clicks === null || !click_shares) return null;
  const { used, held, given_up } = click_shares;
  return { used, held, left: Math.max(max_clicks - used - held, 0), given_up };
}

/** The columns of LinkRow, from `links l` and `apps a`. */
export const linkColumns = `l.id, l.organization_id, l.app_id, a.host, l.short_code,
  ARRAY(SELECT c.code FROM link_codes c WHERE c.link_id = l.id ORDER BY c.code) AS other_codes, l.path, l.campaign, l.source, l.archived,
  l.title, l.data, l.tags, l.external_id, l.ios_url, l.android_url, l.fallback_url,
  l.utm_source, l.utm_medium, l.utm_campaign, l.utm_term, l.utm_content,
  l.og_title, l.og_description, l.og_image_url, l.expires_at, l.expired_url, l.tap_page, l.rules, l.max_clicks,
  CASE WHEN l.max_clicks IS NOT NULL THEN (${clickSharesOf('l.id')}) END AS click_shares, l.has_password, l.clicks_before, l.created_at, l.updated_at`;

/** For each app of `apps a`: the link that has a code, its own or another, as `h.link_id`. @param code an SQL expression. */
export function linkWithCode(code: string): string {
  const stored = `signpost_stored_code(a.settings, ${code})`;
  return `LATERAL (SELECT x.id AS link_id FROM links x WHERE x.app_id = a.id AND x.short_code = ${stored} UNION ALL
    SELECT c.link_id FROM link_codes c WHERE c.app_id = a.id AND c.code = ${stored}) AS h`;
}

/** A link as the API returns it. */
export function linkAnswer(row: LinkRow, shortUrl: ShortUrl): object {
  const { organization_id: _, host, expires_at, created_at, updated_at, click_shares: __, ...fields } = row;
  return {
    ...fields,
    url: shortUrl(host, row.short_code),
    click_limit: clickLimitOf(row),
    expires_at: expires_at === null ? null : expires_at.toISOString(),
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  };
}

const time = Type.String({ format: 'date-time' });

/** The answer's schema. */
export const linkSchema = Type.Object(
  {
    id: Type.String(),
    app_id: Type.String(),
    url: Type.String(),
    source: Type.Union([
      Type.Literal('dashboard'),
      Type.Literal('sdk'),
      Type.Literal('import'),
      Type.Literal('visit', { description: 'Created by the first visit to a Firebase long link.' }),
      Type.Literal('learned', { description: 'Learned from the app’s old service at the first visit.' }),
    ]),
    ...linkFields,
    short_code: Type.String({
      description: 'An imported code may have up to 190 characters, including / . ~ and characters outside ASCII.',
    }),
    other_codes: Type.Array(Type.String(), {
      description: 'Additional codes of the host that lead to this link. Created by imports.',
    }),
    data: Type.Object({}, { additionalProperties: true }),
    tags: Type.Array(Type.String()),
    expires_at: nullable(time),
    click_limit: nullable(
      Type.Object(
        {
          used: Type.Integer({ description: 'Clicks that redirectors have reported as used; a few seconds behind.' }),
          held: Type.Integer({
            description: 'Clicks that redirectors have reserved: not used yet, or used within the last seconds.',
          }),
          left: Type.Integer({ description: 'Clicks that no redirector has reserved.' }),
          given_up: Type.Integer({
            description:
              'The part of used that a redirector had reserved that has not reported for 10 minutes: perhaps no one was redirected.',
          }),
        },
        { description: 'How many of the max_clicks are used; null without max_clicks, and in webhooks.' },
      ),
    ),
    has_password: Type.Boolean({ description: 'Whether visitors must enter a password.' }),
    clicks_before: nullable(
      Type.Integer({
        description:
          'Clicks that the previous service had counted when the link was imported. Not included in any other figure.',
      }),
    ),
    created_at: time,
    updated_at: time,
  },
  { title: 'Link' },
);

export const linkExample = {
  id: 'lnk_01j9z3k4m5n6p7q8r9s0t1v2w3',
  app_id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
  short_code: 'summer',
  other_codes: [],
  url: 'https://shop.example.com/summer',
  path: '/products/42',
  campaign: 'summer_sale',
  source: 'dashboard',
  archived: false,
  title: 'Summer sale',
  data: { coupon: 'SUN' },
  tags: ['sale'],
  external_id: null,
  ios_url: null,
  android_url: null,
  fallback_url: 'https://www.example.com/sale',
  utm_source: 'newsletter',
  utm_medium: 'email',
  utm_campaign: 'summer_sale',
  utm_term: null,
  utm_content: null,
  og_title: null,
  og_description: null,
  og_image_url: null,
  expires_at: null,
  expired_url: null,
  tap_page: null,
  rules: null,
  max_clicks: null,
  click_limit: null,
  has_password: false,
  clicks_before: null,
  created_at: '2026-01-15T09:30:00.000Z',
  updated_at: '2026-01-15T09:30:00.000Z',
};
