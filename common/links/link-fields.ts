/** The fields of a link that a caller may write: their schemas, and the rules that a schema can't express. */
import { type Static, type TSchema, type TUnsafe, Type } from 'typebox';
import { UTM_FIELDS, utmFrom } from '#common/campaign-fields.ts';
import { toJson } from '#common/exact-json.ts';
import type { FieldError } from '#common/http/rejection.ts';
import { isStorableTime, storableTimes } from '#common/storable-time.ts';
import { hasGlyph } from '#common/visible-text.ts';
import { rulesFaults, rulesSchema } from './link-rule-fields.ts';
import { isReservedCode } from './short-code.ts';
import { type TapPageMode, tapPageModes } from './tap-page.ts';
import { URL_CHARACTERS_MAX, urlFaults } from './web-address.ts';

const DATA_BYTES_MAX = 10_240;
/** Of a link that is created with an app's public key. */
const SDK_DATA_BYTES_MAX = 4_096;
const PATH_CHARACTERS_MAX = 2048;
/** The maximum length that is stored in the log with each click. */
export const CAMPAIGN_CHARACTERS_MAX = 255;

/**
 * The schema, or null, which clears the field. A type list instead of a union, so that an error is reported only once.
 */
export function nullable<S extends TSchema>(schema: S): TUnsafe<Static<S> | null> {
  const { type } = schema as { type?: unknown };
  return Type.Unsafe<Static<S> | null>({ ...schema, type: [type, 'null'] });
}

const text = (maxLength: number, description: string) => nullable(Type.String({ maxLength, description }));
const address = (description: string) =>
  nullable(Type.String({ minLength: 1, maxLength: URL_CHARACTERS_MAX, description }));
const utm = (name: string) =>
  text(CAMPAIGN_CHARACTERS_MAX, `Added to web destinations as ${name}, and stored with each click.`);

export const TAGS_MAX = 20;
const MAX_CLICKS_MAX = 1_000_000_000;

function tagList(description: string) {
  const about = description === '' ? {} : { description };
  return Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { maxItems: TAGS_MAX, uniqueItems: true, ...about });
}

function dataField(bytesMax: number) {
  return nullable(
    Type.Object(
      {},
      {
        additionalProperties: true,
        description: `Passed to the app when it opens. At most ${bytesMax} bytes, nested at most 31 levels deep. Numbers keep their digits.`,
      },
    ),
  );
}

/** Every field that may be written, with its schema. */
export const linkFields = {
  path: Type.String({
    minLength: 1,
    maxLength: PATH_CHARACTERS_MAX,
    pattern: '^[^\\u0000-\\u001f\\u007f]*$',
    examples: ['/products/123'],
    description: 'In-app path. A leading / is added if it is missing.',
  }),
  short_code: Type.String({
    pattern: '^[A-Za-z0-9_-]{3,64}$',
    examples: ['summer-sale'],
    description: 'Case-sensitive. Generated at random if absent. A code that is taken or reserved is rejected.',
  }),
  campaign: nullable(Type.String({ minLength: 1, maxLength: CAMPAIGN_CHARACTERS_MAX })),
  archived: Type.Boolean({ description: 'An archived link returns 404 and keeps its statistics.' }),
  title: text(300, 'Label for your team; not shown to visitors.'),
  data: dataField(DATA_BYTES_MAX),
  tags: nullable(tagList('')),
  external_id: nullable(
    Type.String({ minLength: 1, maxLength: 255, description: "Your own identifier, unique among the app's links." }),
  ),
  ios_url: address('Destination on iOS instead of the App Store.'),
  android_url: address('Destination on Android instead of the Play Store.'),
  fallback_url: address("Destination on every other platform. Default: the app's fallback_url."),
  ...utmFrom(utm),
  og_title: text(300, 'Title of the link preview (Open Graph).'),
  og_description: text(1000, 'Text of the link preview (Open Graph).'),
  og_image_url: address('Image of the link preview (Open Graph).'),
  expires_at: nullable(
    Type.String({
      format: 'date-time',
      description: 'From this time on, visitors are redirected to expired_url, or get a 410.',
    }),
  ),
  expired_url: address('Destination once the link has expired or reached its max_clicks.'),
  max_clicks: nullable(
    Type.Integer({
      minimum: 1,
      maximum: MAX_CLICKS_MAX,
      description:
        'Maximum number of clicks by people that are redirected. Later visitors are treated as if the link had expired. Previews, bots and HEAD requests do not count. See click_limit.',
    }),
  ),
  tap_page: Type.Unsafe<TapPageMode | null>({
    type: ['string', 'null'],
    enum: [...tapPageModes, null],
    description: 'Platforms on which a page with a button is shown before the store. null: use the app’s setting.',
  }),
  rules: rulesSchema,
};

type Optional<P> = { [K in keyof P]: P[K] extends TSchema ? ReturnType<typeof Type.Optional<P[K]>> : never };

function optional<P extends Record<string, TSchema>>(fields: P): Optional<P> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, schema]) => [name, Type.Optional(schema)]),
  ) as Optional<P>;
}

const { path, ...others } = linkFields;
const app_id = Type.Optional(Type.String({ description: 'Optional for a user with access to exactly one app.' }));

const url = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: URL_CHARACTERS_MAX,
    description:
      'Destination on every platform, for links that do not open a place in the app: the default of ios_url, android_url and fallback_url. path is then optional and defaults to the path of this URL.',
  }),
);

const utm_template_id = Type.Optional(
  Type.String({
    examples: ['utm_01j9z3k4m5n6p7q8r9s0t1v2w3'],
    description:
      'A template of the app or of its organization. Fills in the UTM parameters that the request omits. The values are copied: later changes to the template do not affect the link.',
  }),
);

/** The body that creates a link: with a path, a url or both. */
export const newLinkBody = Type.Object(
  { app_id, url, utm_template_id, ...optional(linkFields) },
  { additionalProperties: false, title: 'NewLink' },
);
const { external_id: _, ...upserted } = optional(linkFields);
/** The body that creates or updates the link with an external id. */
export const upsertedLinkBody = Type.Object(
  { url, utm_template_id, ...upserted },
  { additionalProperties: false, title: 'UpsertedLink' },
);
const { short_code: __, ...shared } = upserted;
/** The fields that can be changed in bulk: all that need not be unique. */
export const sharedChangesBody = Type.Object(
  {
    ...shared,
    add_tags: Type.Optional(tagList(`Added to the tags of each link. A link has at most ${TAGS_MAX}.`)),
    remove_tags: Type.Optional(tagList('Removed from the tags of each link.')),
  },
  { additionalProperties: false, minProperties: 1, title: 'SharedLinkChanges' },
);
/** The same for SDKs. Unknown fields are ignored, because old SDKs are used for years. */
export const newSdkLinkBody = Type.Object(
  { app_id, path, ...optional({ ...others, data: dataField(SDK_DATA_BYTES_MAX) }) },
  { title: 'NewSdkLink' },
);
/** The body that changes a link: any of the fields, at least one. */
export const linkChangesBody = Type.Object(optional(linkFields), {
  additionalProperties: false,
  minProperties: 1,
  title: 'LinkChanges',
});

export type NewLink = Static<typeof newLinkBody>;
/** A link that can be stored. */
export type LinkToCreate = Omit<NewLink, 'app_id' | 'url' | 'path' | 'utm_template_id'> & { readonly path: string };
export type LinkChanges = Static<typeof linkChangesBody>;
export type LinkFieldName = keyof typeof linkFields;
export const linkFieldNames = Object.keys(linkFields) as LinkFieldName[];

const addresses = ['ios_url', 'android_url', 'fallback_url', 'og_image_url', 'expired_url'] as const;

const unseen = 'must have a visible character';
/** Blank ones would look like none in lists and statistics. */
const visibleFields = ['title', 'campaign', 'external_id', 'og_title', 'og_description', ...UTM_FIELDS] as const;

/** Rules that the schemas of links can't express. Accepts any object; wrong types are reported by the schema. */
export function linkFaults(
  link: { readonly [K in LinkFieldName]?: unknown },
  dataBytesMax = DATA_BYTES_MAX,
): FieldError[] {
  const { path, short_code, data, expires_at, rules } = link;
  const faults: FieldError[] = [...urlFaults(link, addresses), ...rulesFaults(rules)];
  for (const field of visibleFields) {
    const text: unknown = link[field];
    if (typeof text === 'string' && text !== '' && !hasGlyph(text)) faults.push({ field, message: unseen });
  }
  for (const [at, tag] of Array.isArray(link.tags) ? link.tags.entries() : [])
    if (typeof tag === 'string' && tag !== '' && !hasGlyph(tag)) faults.push({ field: `tags[${at}]`, message: unseen });
  // Counted in characters, as the schema does; an unpaired surrogate is not a character.
  if (typeof path === 'string' && [...storedPath(path)].length > PATH_CHARACTERS_MAX) {
    faults.push({ field: 'path', message: `must have at most ${PATH_CHARACTERS_MAX} characters with its leading /` });
  }
  if (typeof short_code === 'string' && isReservedCode(short_code)) {
    faults.push({ field: 'short_code', message: 'is reserved' });
  }
  if (data && Buffer.byteLength(JSON.stringify(data)) > dataBytesMax) {
    faults.push({ field: 'data', message: `must have at most ${dataBytesMax} bytes` });
  }
  const infinite = infiniteNumber(data, 'data');
  if (infinite !== null) faults.push({ field: infinite, message: 'is a number too large to be stored' });
  if (typeof expires_at === 'string' && !isStorableTime(expires_at)) {
    faults.push({ field: 'expires_at', message: storableTimes });
  }
  return faults;
}

/** The same for a link from an SDK. */
export function sdkLinkFaults(link: { readonly [K in LinkFieldName]?: unknown }): FieldError[] {
  return linkFaults(link, SDK_DATA_BYTES_MAX);
}

/** The same for a new link, which needs a path or a url. */
export function newLinkFaults(link: { readonly [K in LinkFieldName | 'url']?: unknown }): FieldError[] {
  const { path, url } = link;
  const missing = path === undefined && url === undefined ? [{ field: 'path', message: 'is required' }] : [];
  return [...missing, ...urlFaults(link, ['url']), ...linkFaults(link)];
}

/** The fields that `url` stands for. */
export function withDestination<F extends Omit<NewLink, 'app_id' | 'utm_template_id'>>(given: F): Omit<F, 'url'> {
  const { url, ...fields } = given;
  if (url === undefined) return fields;
  const { path = pathOf(url), ios_url = url, android_url = url, fallback_url = url } = fields;
  return { ...fields, path, ios_url, android_url, fallback_url };
}

function pathOf(url: string): string {
  const { pathname, search } = new URL(url);
  // Escaping can make it longer than the URL was.
  return pathname.length + search.length <= PATH_CHARACTERS_MAX ? pathname + search : '/';
}

/** The position of the first number that JSON can express and a double cannot, such as 1e400; null if there is none. */
function infiniteNumber(value: unknown, at: string): string | null {
  if (typeof value === 'number' && !Number.isFinite(value)) return at;
  if (typeof value !== 'object' || value === null) return null;
  for (const [key, entry] of Object.entries(value)) {
    const found = infiniteNumber(entry, Array.isArray(value) ? `${at}[${key}]` : `${at}.${key}`);
    if (found !== null) return found;
  }
  return null;
}

function storedPath(given: string): string {
  return given.startsWith('/') ? given : `/${given}`;
}

/** A value as its column stores it. Null clears; columns that can't be null get their empty value. */
export function storedValue(name: LinkFieldName, value: unknown): unknown {
  switch (name) {
    case 'path':
      return storedPath(String(value));
    case 'data':
      return toJson(value ?? {});
    case 'tags':
      return value ?? [];
    case 'rules':
      return Array.isArray(value) && value.length > 0 ? JSON.stringify(value) : null;
    case 'expires_at':
      return typeof value === 'string' ? new Date(value) : null;
    default:
      return value === '' ? null : (value ?? null);
  }
}
