/** Schemas of POST /sdk/match: what a device reports about itself, and the answer. */
import { type Static, Type } from 'typebox';
import { utmFrom } from '#common/campaign-fields.ts';
import { sdkPlatforms } from '#common/log/event-record.ts';
import { installTextMax } from '#common/log/install-record.ts';
import { type NoMatchReason, noMatchReasons } from '#common/match/rules.ts';

/** SDKs write null for what they don't know; it means the same as leaving the field out. */
function text(maxLength: number, description: string) {
  return Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength, description }));
}

function size(description: string) {
  return Type.Optional(
    Type.Unsafe<number | null>({ type: ['number', 'null'], minimum: 0, maximum: 100_000, description }),
  );
}

/** The fields of POST /sdk/match; POST /sdk/install has them too. */
export const deviceFields = {
  platform: Type.Unsafe<(typeof sdkPlatforms)[number]>({ type: 'string', enum: [...sdkPlatforms] }),
  os_version: text(64, '`17.5.1`'),
  device_model: text(128, '`iPhone15,2`, `Pixel 8`'),
  language: text(64, 'BCP 47; `en_US` is accepted too.'),
  languages: Type.Optional(
    Type.Unsafe<readonly string[] | null>({
      type: ['array', 'null'],
      items: { type: 'string', maxLength: 64 },
      maxItems: 32,
      description:
        "The phone's preferred languages, most preferred first (`Locale.preferredLanguages`, `LocaleList`). `language` is often " +
        'the language of the app itself, which says little if the app has only one.',
    }),
  ),
  timezone: text(64, 'IANA, `Europe/Paris`.'),
  screen_width: size('Native or CSS pixels.'),
  screen_height: size('Native or CSS pixels.'),
  screen_scale: size('Native pixels per CSS pixel.'),
  user_agent: text(1024, "The device's browser, if the SDK can tell."),
  app_version: text(64, ''),
  sdk_name: text(64, ''),
  sdk_version: text(64, ''),
  device_id: text(
    256,
    "The app's identifier of the device. With it, a repeated request gets the same answer; new evidence gets a new answer.",
  ),
  install_id: text(
    installTextMax.install_id,
    "The app's identifier of the install. POST /sdk/install requires install_id or device_id, and generates an install_id if absent. A " +
      'reinstall has a new install_id: send it here too, so that the request is not mistaken for a re-engagement.',
  ),
  click_id: text(64, 'Evidence: the id of the click.'),
  install_referrer: text(4096, "Evidence: the Play Store's referrer as received."),
  clipboard_url: text(2048, 'Evidence: a URL from the clipboard with click_id= in it.'),
  url: text(2048, 'Evidence: the link that opened the app. Expired links are matched too; archived links are not.'),
};

export const MatchBody = Type.Object(deviceFields, { title: 'MatchRequest' });
export type MatchFields = Static<typeof MatchBody>;

export const matchTypes = ['url', 'click_id', 'install_referrer', 'clipboard', 'probabilistic', 'none'] as const;
export type MatchType = (typeof matchTypes)[number];

const nullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] });

export const LinkBriefSchema = Type.Union([
  Type.Object(
    {
      id: Type.String(),
      short_code: Type.String(),
      url: Type.String(),
      path: Type.String(),
      campaign: nullableText,
      ...utmFrom(() => nullableText),
    },
    { title: 'LinkBrief' },
  ),
  Type.Null(),
]);

export const MatchAnswerSchema = Type.Object(
  {
    matched: Type.Boolean(),
    match_id: Type.String(),
    match_type: Type.Unsafe<MatchType>({ type: 'string', enum: [...matchTypes] }),
    match_guaranteed: Type.Boolean(),
    confidence: Type.Number({ minimum: 0, maximum: 1 }),
    matched_factors: Type.Array(Type.String()),
    ambiguous: Type.Boolean(),
    competing_links: Type.Integer(),
    click_id: nullableText,
    clicked_at: nullableText,
    link: LinkBriefSchema,
    path: nullableText,
    data: Type.Unsafe<object | null>({ type: ['object', 'null'], additionalProperties: true }),
    query_params: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
    reason: Type.Unsafe<NoMatchReason | null>({
      type: ['string', 'null'],
      enum: [...noMatchReasons, null],
      description:
        'Why there is no match. `click_pending`: the named click has not been processed yet; send the request again after `retry_after_ms`. ' +
        'No answer is stored for the device until then.',
    }),
    retry_after_ms: Type.Unsafe<number | null>({ type: ['integer', 'null'], minimum: 0 }),
  },
  { title: 'Match' },
);
