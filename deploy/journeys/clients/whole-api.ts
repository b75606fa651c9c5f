/**
 * A backend and a growth team's script on openapi-fetch: server keys, many links, figures, the live feed, people, the
 * browser's session and explanations. The test generates ./api.ts. Arguments: base URL, e-mail address, password.
 */
import createClient from 'openapi-fetch';
import type { components, paths } from './api.ts';

type ListQuery = NonNullable<paths['/links']['get']['parameters']['query']>;
type Links = paths['/links']['get']['responses']['200']['content']['application/json'];
type Failure = components['schemas']['Error']['error'];
interface Reply<T> {
  readonly data?: T;
  readonly error?: components['schemas']['Error'];
  readonly response: Response;
}

const [baseUrl = '', email = '', password = ''] = process.argv.slice(2);
const triesMax = 150;

function taken<T>({ data, error, response }: Reply<T>): T {
  if (data === undefined) throw new Error(`${response.url}: ${JSON.stringify(error)}`);
  return data;
}

function refused({ error, response }: Reply<unknown>): Failure {
  if (error === undefined) throw new Error(`${response.url} was not refused`);
  return error.error;
}

async function until<T>(ask: () => Promise<T>, isDone: (answer: T) => boolean): Promise<T> {
  for (let tries = 1; ; tries++) {
    const answer = await ask();
    if (isDone(answer) || tries === triesMax) return answer;
    await new Promise((done) => setTimeout(done, 200));
  }
}

const clientOf = (headers: Record<string, string>) => createClient<paths>({ baseUrl, headers });

const pair = taken(await clientOf({}).POST('/auth/login', { body: { email, password } }));
const owner = clientOf({ authorization: `Bearer ${pair.access_token}` });
const app = taken(
  await owner.POST('/apps', {
    body: { name: 'Whole', fallback_url: 'https://example.com/', ios: { bundle_id: 'a.b' } },
  }),
);
const { id: app_id } = app;
const sdk = clientOf({ 'X-API-Key': app.api_key });

async function serverKeys() {
  const body = { name: 'CI', scopes: ['links:write' as const, 'analytics:read' as const], app_ids: [app_id] };
  const key = taken(await owner.POST('/keys', { body }));
  const backend = clientOf({ authorization: `Bearer ${key.key}` });
  const scope = refused(await backend.POST('/costs', { body: { costs: [] } })).details?.reason;
  const keys = refused(await backend.GET('/keys')).details?.reason;
  const listed = taken(await owner.GET('/keys')).data.find((one) => one.id === key.id);
  const narrowed = { params: { path: { id: app_id } }, body: { settings: { sdk_links: false } } };
  taken(await owner.PATCH('/apps/{id}', narrowed));
  const sdkLinks = refused(await sdk.POST('/sdk/links', { body: { path: '/x' } })).details?.reason;
  const end = async () => {
    taken(await owner.DELETE('/keys/{id}', { params: { path: { id: key.id } } }));
    return refused(await backend.GET('/links')).code;
  };
  return { backend, end, seen: { scope, keys, isHidden: listed !== undefined && !('key' in listed), sdkLinks } };
}

const { backend, end: endKey, seen: seenKeys } = await serverKeys();

async function manyLinks() {
  const named = { params: { path: { app_id, external_id: 'sku/1' } } };
  const url = 'https://example.com/products/1?color=red';
  const made = await backend.PUT('/links/by-external-id/{app_id}/{external_id}', { ...named, body: { url } });
  const { id, short_code, url: short, path } = taken(made);
  const again = await backend.PUT('/links/by-external-id/{app_id}/{external_id}', { ...named, body: { title: 'One' } });
  const found = await Promise.all(
    [{ app_id, external_id: 'sku/1' }, { host: app.host, short_code }, { url: short }].map(async (query) =>
      taken(await backend.GET('/links/lookup', { params: { query } })),
    ),
  );
  const links = [
    { app_id, path: '/a', tags: ['a', 'b'], campaign: 'spring' },
    { app_id, path: '/b', tags: ['b'] },
    { app_id, path: '/c', short_code },
  ];
  const batch = taken(await backend.POST('/links/bulk', { body: { links } }));
  const failed = batch.results[2]?.error;
  const first = await backend.POST('/links', {
    params: { header: { 'Idempotency-Key': 'order-1' } },
    body: { app_id, path: '/d' },
  });
  const repeated = await backend.POST('/links', {
    params: { header: { 'Idempotency-Key': 'order-1' } },
    body: { app_id, path: '/d' },
  });
  const other = await backend.POST('/links', {
    params: { header: { 'Idempotency-Key': 'order-1' } },
    body: { app_id, path: '/e' },
  });
  const ids: string[] = [];
  for (let cursor: string | null | undefined = ''; typeof cursor === 'string'; ) {
    const query: ListQuery = { app_id, cursor, limit: 2, include: 'clicks,installs' };
    const page: Links = taken(await backend.GET('/links', { params: { query } }));
    ids.push(...page.data.map((link) => `${link.id} ${link.clicks} ${link.installs}`));
    cursor = page.pagination.next_cursor;
  }
  const count = async (tag: string) =>
    taken(await backend.GET('/links', { params: { query: { app_id, tag } } })).pagination.total;
  const filter = { app_id, tag: 'b' };
  const updated = taken(await backend.PATCH('/links/bulk', { body: { filter, changes: { add_tags: ['c'] } } })).updated;
  const tags = taken(await backend.GET('/tags', { params: { query: { app_id } } })).data;
  const counts = [await count('a,c'), await count('-b')];
  const deleted = taken(await backend.DELETE('/links/bulk', { body: { filter: { app_id, tag: 'c' } } })).deleted;
  return {
    link: taken(again),
    seen: {
      path,
      statuses: [made.response.status, again.response.status],
      isFound: found.every((link) => link.id === id),
      bulk: [batch.created, batch.failed],
      taken: failed?.details?.reason,
      isHolder: failed?.details?.link_id === id,
      isReplayed: repeated.response.headers.get('Idempotent-Replayed'),
      isSame: taken(first).id === taken(repeated).id,
      other: refused(other).details?.field,
      pages: [ids.length, new Set(ids).size],
      updated,
      tags,
      counts,
      deleted,
    },
  };
}

const { link, seen: seenLinks } = await manyLinks();
const liveFrom = (await liveText({})).match(/^id: (\S+)$/m)?.[1] ?? '';

/** What the feed has, without waiting for more. */
async function liveText(headers: Record<string, string>): Promise<string> {
  const params = { query: { app_id, seconds: 0 } };
  return taken(await backend.GET('/live', { params, headers, parseAs: 'text' }));
}

async function records() {
  const device = { platform: 'ios' as const, device_id: 'phone-2' };
  const match = taken(await sdk.POST('/sdk/match', { body: { ...device, url: `${link.url}?utm_source=mail` } }));
  taken(await sdk.POST('/sdk/install', { body: { ...device, match_id: match.match_id } }));
  const purchase = { device_id: 'phone-2', revenue: { amount: '20', currency: 'EUR' } };
  taken(await sdk.POST('/sdk/events', { body: { events: [{ name: 'purchase', ...purchase }] } }));
  const track = { type: 'track' as const, event: 'from_segment', anonymousId: 'phone-2', messageId: 'm-1' };
  const segment = await sdk.POST('/sdk/segment/v1/batch', { body: { batch: [track] } });
  const capture = { event: 'from_posthog', properties: { distinct_id: 'someone' } };
  const posthog = await sdk.POST('/sdk/posthog/batch/', { body: { batch: [capture] } });
  return [segment.response.status, posthog.response.status];
}

const seenForeign = await records();

async function figures() {
  const by = async (field: 'event_name' | 'match_certainty' | 'utm_source') => {
    const query = { by: field, app_id };
    return taken(await backend.GET('/analytics/breakdown', { params: { query } })).data;
  };
  const events = await until(
    () => by('event_name'),
    (rows) => rows.filter(({ value }) => value !== null).length === 3,
  );
  const page = taken(
    await backend.GET('/analytics/page', { params: { query: { app_id, breakdowns: 'event_name,utm_source' } } }),
  );
  const cohorts = { app_id, cohort: 'all' as const, days: '0' };
  const retention = taken(await backend.GET('/analytics/retention', { params: { query: cohorts } }));
  const funnel = taken(
    await backend.GET('/analytics/funnel', { params: { query: { app_id, events: 'purchase', from: 'click' } } }),
  );
  const cost = { campaign: 'spring', day: new Date().toISOString().slice(0, 10), amount: '8', currency: 'EUR' };
  taken(await owner.POST('/costs', { body: { costs: [cost] } }));
  const ltv = taken(
    await owner.GET('/analytics/ltv', { params: { query: { cohort: 'all', days: '0', campaign: 'spring' } } }),
  );
  const usd = refused(await backend.GET('/analytics/overview', { params: { query: { currency: 'USD' } } }));
  const view = taken(await owner.POST('/views', { body: { name: 'Mail', query: { utm_source: 'mail' } } }));
  return {
    events: events.map(({ value, events }) => `${value} ${events}`).sort(),
    certainty: (await by('match_certainty')).map(({ value, installs }) => `${value} ${installs}`).sort(),
    sources: (await by('utm_source')).map(({ value, clicks, installs }) => `${value} ${clicks} ${installs}`),
    page: [page.totals.attributed_installs, page.totals.event_conversion_rate, page.breakdowns.length],
    cohort: retention.data.map(({ installs }) => installs),
    funnel: funnel.steps.map(({ step, count }) => `${step} ${count}`),
    cost: ltv.data[0]?.cost,
    usd: usd.details?.field,
    isViewKept: taken(await owner.GET('/views')).data.some(({ id }) => id === view.id),
  };
}

const seenFigures = await figures();
const live = await liveText({ 'Last-Event-ID': liveFrom });
const seenLive = [...new Set(live.match(/^event: \w+$/gm))].sort();

async function people() {
  const me = taken(await owner.GET('/me'));
  const organization_id = me.organizations[0]?.id ?? '';
  const invitation = taken(await owner.POST('/invitations', { body: { email: 'new@example.com', role: 'viewer' } }));
  const isOpen = taken(await owner.GET('/invitations')).data.some(({ id }) => id === invitation.id);
  const withdrawn = { params: { path: { invitation_id: invitation.id } } };
  taken(await owner.DELETE('/invitations/{invitation_id}', withdrawn));
  const renamed = { params: { path: { organization_id } }, body: { name: 'Renamed' } };
  const { name } = taken(await owner.PATCH('/organizations/{organization_id}', renamed));
  const entries = taken(await owner.GET('/audit-log', { params: { query: { limit: 2 } } })).data;
  return {
    members: taken(await owner.GET('/members')).data.map(({ role }) => role),
    isOpen,
    hasLink: invitation.url?.includes(invitation.token ?? ''),
    name,
    sessions: taken(await owner.GET('/sessions')).data.length > 0,
    audit: entries.map(({ action }) => action),
  };
}

const seenPeople = await people();

async function session() {
  const ours = { 'Sec-Fetch-Site': 'same-origin', 'X-Signpost-Session': '1' };
  const begun = await clientOf(ours).POST('/session', { body: { email, password } });
  const [cookie = ''] = begun.response.headers.getSetCookie();
  const page = clientOf({ ...ours, cookie: cookie.split(';')[0] ?? '' });
  const other = clientOf({ cookie: cookie.split(';')[0] ?? '', 'Sec-Fetch-Site': 'cross-site' });
  const read = (await page.GET('/me')).response.status;
  const foreign = (await other.GET('/me')).response.status;
  taken(await page.DELETE('/session'));
  return { status: begun.response.status, read, foreign, ended: (await page.GET('/me')).response.status };
}

const explained = taken(
  await backend.POST('/links/{id}/explain', {
    params: { path: { id: link.id } },
    body: { user_agent: 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Safari/604.1' },
  }),
);

console.log(
  JSON.stringify({
    keys: seenKeys,
    links: seenLinks,
    foreign: seenForeign,
    figures: seenFigures,
    live: seenLive,
    people: seenPeople,
    session: await session(),
    explained: [explained.platform, explained.rule, explained.status, explained.location],
    endedKey: await endKey(),
  }),
);
