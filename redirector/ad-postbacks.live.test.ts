import { request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { newId } from '#common/ids.ts';
import { adPostbackLimits } from './ad-postbacks.ts';
import { appleExamples, developmentExample, jws, skadnetworkSignature, testKey } from './testing/apple-postbacks.ts';
import { TestEdge } from './testing/running-edge.ts';

const skadnetworkPath = '/.well-known/skadnetwork/report-attribution/';
const adAttributionKitPath = '/.well-known/appattribution/report-attribution/';
const example = appleExamples['4.0, fine value'];
const kid = 'apple-cas-identifier/9';
const ourKid = testKey(kid);

let api: ApiForTest;
let edge: TestEdge;
let owner: Member;
let nowMs = Date.now();
let senders = 0;

beforeAll(async () => {
  api = await apiForTest();
  const urls = { redis: api.redisServer.url, postgres: api.databaseUrl };
  const options = { trustedProxies: ['127.0.0.1'], appleKeys: [ourKid.setting], beaconClock: () => nowMs };
  edge = await TestEdge.start(urls, options);
  owner = await api.member();
});
afterAll(async () => {
  await edge.stop();
  await api.stop();
});

interface App {
  readonly id: string;
  readonly host: string;
}

async function newApp(app_store_id: string | null, member = owner): Promise<App> {
  const ios = { bundle_id: 'com.example.app', team_id: null, app_store_id, uri_scheme: null };
  const { body } = await member.call('POST', '/apps', { name: 'Advertised', ios });
  return { id: String(body.id), host: String(body.host) };
}

/** Sends from a phone with its own address. */
function send(host: string, path: string, message: object | string, headers: Record<string, string> = {}) {
  const body = typeof message === 'string' ? message : JSON.stringify(message);
  const from = { 'x-forwarded-for': `198.51.100.${++senders % 250}`, 'content-type': 'application/json' };
  return new Promise<number>((done, fail) => {
    const sent = request(
      {
        ...{ port: edge.port, host: '127.0.0.1', path, method: 'POST', agent: false, timeout: 10_000 },
        headers: { host, 'content-length': Buffer.byteLength(body), ...from, ...headers },
      },
      (answer) => answer.resume().on('end', () => done(answer.statusCode ?? 0)),
    );
    sent.on('error', fail).end(body);
  });
}

async function listed(app: App, query = '', member = owner) {
  const { status, body } = await member.call('GET', `/apps/${app.id}/ad-postbacks${query}`);
  return { status, ...body };
}

/** A version 4 postback that Apple did not sign. */
const forged = (n: number) => ({ ...example, 'transaction-id': `forged-${n}` });
/** An AdAttributionKit postback, signed with our own key, which the operator configured. */
const signed = (id: string, app_store_id: number, more: object = {}, outer: object = {}) => ({
  'jws-string': jws(ourKid, kid, {
    'advertised-item-identifier': app_store_id,
    'postback-identifier': id,
    'ad-network-identifier': 'com.example',
    'source-identifier': '5239',
    'did-win': true,
    ...more,
  }),
  ...outer,
});

test('Apple’s own example is stored once for the app that it names, however often it is sent', async () => {
  const app = await newApp('525463029');
  for (let n = 0; n < 3; n++) expect(await send(app.host, skadnetworkPath, example)).toBe(200);
  // A copy that differs only in unsigned values is not a second conversion, and does not change the first.
  expect(await send(app.host, skadnetworkPath, { ...example, 'conversion-value': 1 })).toBe(200);
  const { data, counts, next_cursor } = await listed(app);
  expect(data).toEqual([
    expect.objectContaining({
      framework: 'skadnetwork',
      transaction_id: example['transaction-id'],
      verified: true,
      unverified_reason: null,
      ad_network_id: 'com.example',
      source_identifier: '5239',
      campaign_id: null,
      conversion_value: 63,
      did_win: true,
      conversion_type: 'download',
      source_domain: 'example.com',
    }),
  ]);
  expect([counts, next_cursor]).toEqual([
    [expect.objectContaining({ source_identifier: '5239', conversion_value: 63, postbacks: 1 })],
    null,
  ]);
  expect(Object.keys(data[0])).not.toContain('id');
});

test('an AdAttributionKit example made in developer settings is a test, also at the path without the slash', async () => {
  const app = await newApp('10738027756');
  expect(await send(app.host, adAttributionKitPath.slice(0, -1), developmentExample)).toBe(200);
  const { data, counts } = await listed(app);
  expect(data).toMatchObject([
    { framework: 'adattributionkit', verified: false, unverified_reason: 'development', conversion_value: 24 },
  ]);
  expect(counts).toEqual([]);
});

test('postbacks with a changed field, a wrong key or an unknown version are stored as not verified, and are not counted', async () => {
  const app = await newApp('525463029', await api.member());
  const key = testKey('skadnetwork');
  const values = ['4.0', 'com.example', '5239', 525463029, 'wrong-key', false, 'example.com', 1, true, 0];
  const wrongKey = {
    ...example,
    ...{ 'transaction-id': 'wrong-key', 'attribution-signature': skadnetworkSignature(key, values) },
  };
  for (const message of [
    { ...example, 'source-identifier': '5238' },
    wrongKey,
    { ...example, version: '9.0', 'transaction-id': 'v9' },
  ])
    expect(await send(app.host, skadnetworkPath, message)).toBe(200);
  const rows = await edge.db.query<{ transaction_id: string; unverified_reason: string }>(
    'SELECT transaction_id, unverified_reason FROM ad_postbacks WHERE app_id = $1 ORDER BY id',
    [app.id],
  );
  expect(rows).toEqual([
    { transaction_id: example['transaction-id'], unverified_reason: 'bad_signature' },
    { transaction_id: 'wrong-key', unverified_reason: 'bad_signature' },
    { transaction_id: 'v9', unverified_reason: 'unknown_version' },
  ]);
});

test('a forged copy cannot block the real one, and cannot replace it', async () => {
  const app = await newApp('525463029', await api.member());
  const fake = { ...example, 'source-identifier': '11' };
  const rows = () =>
    edge.db.query('SELECT source_identifier, unverified_reason, conversion_value FROM ad_postbacks WHERE app_id = $1', [
      app.id,
    ]);
  await send(app.host, skadnetworkPath, fake);
  expect(await rows()).toMatchObject([{ source_identifier: '11', unverified_reason: 'bad_signature' }]);
  await send(app.host, skadnetworkPath, example);
  await send(app.host, skadnetworkPath, { ...fake, 'conversion-value': 2 });
  expect(await rows()).toEqual([{ source_identifier: '5239', unverified_reason: null, conversion_value: 63 }]);
});

test('each conversion window of one transaction is stored', async () => {
  const app = await newApp('77');
  for (const index of [0, 1, 2, 2])
    await send(app.host, adAttributionKitPath, signed('windows', 77, { 'postback-sequence-index': index }));
  expect((await listed(app)).data.map((row: { sequence_index: number }) => row.sequence_index)).toEqual([2, 1, 0]);
});

test('a copy is stored for an app of the host’s organization with this App Store id, or not at all', async () => {
  const stranger = await api.member();
  const [ours, other, theirs] = [await newApp('88'), await newApp('89'), await newApp('88', stranger)];
  // Devices send to the registrable domain, which the apps of an organization may share.
  expect(await send(ours.host, adAttributionKitPath, signed('shared', 89))).toBe(200);
  expect(await send(ours.host, adAttributionKitPath, signed('mine', 88))).toBe(200);
  expect(await send(ours.host, adAttributionKitPath, signed('late', 90))).toBe(200);
  // The same answer as for an app of another organization, so that it does not reveal who owns which app.
  expect(await send(other.host, adAttributionKitPath, signed('foreign', 92))).toBe(200);
  expect(await send('unknown.example', adAttributionKitPath, signed('nowhere', 88))).toBe(404);
  expect(await send('', adAttributionKitPath, signed('hostless', 88))).toBe(404);
  const ids = async (app: App, member = owner) =>
    (await listed(app, '', member)).data.map((row: { transaction_id: string }) => row.transaction_id);
  expect([await ids(ours), await ids(other), await ids(theirs, stranger)]).toEqual([['mine'], ['shared'], []]);
});

test('only members of the organization see the postbacks', async () => {
  const app = await newApp('91');
  await send(app.host, adAttributionKitPath, signed('secret', 91));
  const stranger = await api.member();
  expect((await listed(app, '', stranger)).status).toBe(403);
  expect((await owner.call('GET', `/apps/${newId('app', 1)}/ad-postbacks`)).status).toBe(404);
  const viewer = await api.member('viewer', owner.organization_id);
  expect((await listed(app, '', viewer)).data).toHaveLength(1);
});

test('a body that is not a postback is rejected, and one above the size limit ends the connection', async () => {
  const app = await newApp('525463029');
  expect(await send(app.host, skadnetworkPath, 'no json')).toBe(400);
  expect(await send(app.host, skadnetworkPath, '')).toBe(400);
  expect(await send(app.host, skadnetworkPath, { ...example, 'app-id': 'x' })).toBe(400);
  expect(await send(app.host, adAttributionKitPath, example)).toBe(400);
  const padded = JSON.stringify(example).padEnd(adPostbackLimits.bodyBytesMax, ' ');
  expect(await send(app.host, skadnetworkPath, padded)).toBe(200);
  expect(await send(app.host, skadnetworkPath, `${padded} `)).toBe(413);
  expect(await send(app.host, skadnetworkPath, example, { 'transfer-encoding': 'chunked' })).toBe(400);
  expect((await edge.get(app.host, skadnetworkPath)).status).toBe(404);
});

test('postbacks per address and forged copies per app are limited per minute; the device is asked to try again', async () => {
  const app = await newApp('525463029', await api.member());
  nowMs += 120_000;
  const statuses = [];
  for (let n = 0; n <= adPostbackLimits.unverifiedMax; n++)
    statuses.push(await send(app.host, skadnetworkPath, forged(n)));
  expect(statuses).toEqual([...Array<number>(adPostbackLimits.unverifiedMax).fill(200), 500]);
  // Real postbacks are still accepted.
  expect(await send(app.host, skadnetworkPath, example)).toBe(200);
  const same = { 'x-forwarded-for': '203.0.113.9' };
  for (let n = 0; n < adPostbackLimits.perAddressMax; n++) await send(app.host, skadnetworkPath, 'x', same);
  expect(await send(app.host, skadnetworkPath, example, same)).toBe(500);
  nowMs += 60_000;
  expect(await send(app.host, skadnetworkPath, example, same)).toBe(200);
});

test('at most 50 forged copies per app and day are stored, so that there is room for real ones', async () => {
  const app = await newApp('525463029', await api.member());
  for (let n = 0; n < 60; n++) {
    nowMs += 60_000;
    // The dropped ones get 200 too: otherwise a host of another owner could make devices resend them all.
    expect(await send(app.host, skadnetworkPath, forged(n))).toBe(200);
  }
  expect(await send(app.host, skadnetworkPath, example)).toBe(200);
  const stored = await edge.db.query('SELECT verified, unverified FROM ad_postbacks_stored WHERE app_id = $1', [
    app.id,
  ]);
  expect(stored).toEqual([{ verified: 1, unverified: 50 }]);
  await edge.db.execute('UPDATE ad_postbacks_stored SET verified = 20000 WHERE app_id = $1', [app.id]);
  expect(await send(app.host, skadnetworkPath, appleExamples['3.0, won'])).toBe(500);
  // A new day starts at zero.
  await edge.db.execute('UPDATE ad_postbacks_stored SET day = day - 1 WHERE app_id = $1', [app.id]);
  expect(await send(app.host, skadnetworkPath, appleExamples['3.0, won'])).toBe(200);
});

test.each(['2026', '1/2/2026', 'Nov2026', '2026-11-23', '2026-11-23T10:00:00', '2026-02-30T00:00:00Z'])(
  'a list from or until an invalid time gets 400: %s',
  async (time) => {
    const app = await newApp(null);
    for (const name of ['received_after', 'received_before'])
      expect((await listed(app, `?${name}=${encodeURIComponent(time)}`)).status, name).toBe(400);
  },
);

test('postbacks older than 180 days are deleted as new ones arrive, and are not listed', async () => {
  const app = await newApp('525463029');
  for (const name of ['2.2', '3.0, not won', '4.0, coarse value'] as const)
    await send(app.host, skadnetworkPath, appleExamples[name]);
  await edge.db.execute(
    `UPDATE ad_postbacks SET received_at = now() - interval '181 days' WHERE app_id = $1 AND version <> '4.0'`,
    [app.id],
  );
  expect((await listed(app, '?received_after=1990-01-01T00:00:00Z')).data).toHaveLength(1);
  await send(app.host, skadnetworkPath, example);
  const left = await edge.db.query('SELECT version FROM ad_postbacks WHERE app_id = $1', [app.id]);
  expect(left).toEqual([{ version: '4.0' }, { version: '4.0' }]);
});

test('pages neither skip nor repeat postbacks, and filters apply to the list and the counts', async () => {
  const app = await newApp('92');
  for (let n = 0; n < 7; n++) {
    const more = { 'source-identifier': n < 5 ? '12' : '345', 'did-win': n !== 4 };
    const outer = n % 2 === 0 ? { 'conversion-value': 3 } : { 'coarse-conversion-value': 'low' };
    await send(app.host, adAttributionKitPath, signed(`page-${n}`, 92, more, outer));
  }
  const other = testKey(kid);
  const fake = jws(other, kid, { 'advertised-item-identifier': 92, 'postback-identifier': 'fake' });
  await send(app.host, adAttributionKitPath, { 'jws-string': fake });
  const seen: string[] = [];
  let cursor = '';
  for (let pages = 0; pages < 5 && (pages === 0 || cursor !== ''); pages++) {
    const { data, next_cursor, counts } = await listed(app, `?limit=3${cursor && `&cursor=${cursor}`}`);
    expect(counts === null).toBe(pages > 0);
    seen.push(...data.map((row: { transaction_id: string }) => row.transaction_id));
    cursor = next_cursor ?? '';
    // Its place is a number that all organizations share.
    expect(Buffer.from(cursor, 'base64url').toString('latin1')).not.toMatch(/^\d+\.\d+$/);
  }
  expect(seen).toEqual(['fake', ...[6, 5, 4, 3, 2, 1, 0].map((n) => `page-${n}`)]);
  const counts = async (query: string) =>
    (await listed(app, query)).counts.map(
      (row: {
        source_identifier: string;
        conversion_value: number;
        coarse_conversion_value: string;
        postbacks: number;
      }) => `${row.source_identifier} ${row.conversion_value ?? row.coarse_conversion_value} ${row.postbacks}`,
    );
  // One did not win, and one is not verified.
  expect(await counts('')).toEqual(['12 3 2', '12 low 2', '345 3 1', '345 low 1']);
  expect(await counts('?source_identifier=345')).toEqual(['345 3 1', '345 low 1']);
  expect((await listed(app, '?verified=false')).data).toMatchObject([{ transaction_id: 'fake' }]);
  expect((await listed(app, '?verified=true')).data).toHaveLength(7);
  expect((await listed(app, '?campaign_id=1')).data).toEqual([]);
  const future = new Date(Date.now() + 3_600_000).toISOString();
  expect((await listed(app, `?received_after=${future}`)).data).toEqual([]);
  expect((await listed(app, `?received_before=${future}`)).data).toHaveLength(8);
  for (const wrong of ['cursor=x', 'received_after=x', 'source_identifier=x', 'verified=x'])
    expect([wrong, (await listed(app, `?${wrong}`)).status]).toEqual([wrong, 400]);
});

test('while Postgres is unavailable, the device is asked to try again, and nothing is lost', async () => {
  const app = await newApp('525463029', await api.member());
  expect((await edge.get(app.host, '/unknown')).status).toBe(404);
  await edge.db.execute('ALTER FUNCTION signpost_store_ad_postback(text, text, jsonb) RENAME TO away');
  expect(await send(app.host, skadnetworkPath, example)).toBe(500);
  await edge.db.execute('ALTER FUNCTION away(text, text, jsonb) RENAME TO signpost_store_ad_postback');
  expect(await send(app.host, skadnetworkPath, example)).toBe(200);
});
