import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId, timeOfId } from '#common/ids.ts';
import { decodeInstall, type InstallRecord } from '#common/log/install-record.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';
import { decodeClick } from '#ingest/record-decoder.ts';

const safari =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';
const iphone = { platform: 'ios', os_version: '17.5.1', device_model: 'iPhone15,2', language: 'en_US' };

let edge: SdkEdge;
let clicks: RecentClicks;
beforeAll(async () => {
  edge = await SdkEdge.start();
  clicks = new RecentClicks(edge.redis);
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

interface Place {
  readonly app_id: string;
  readonly key: string;
  readonly host: string;
  readonly link_id: string;
}

async function place(settings = {}): Promise<Place> {
  const app = await edge.app(settings);
  return { ...app, link_id: await edge.link(app.app_id, 'first', { campaign: 'spring' }) };
}

const linkOf = ({ app_id }: Place, short_code: string) => edge.link(app_id, short_code, { campaign: 'winback' });

/** Stores a click as ingest does, with a time `laterMs` from now. */
async function click({ app_id, link_id }: Place, laterMs = 0, ofLink = link_id): Promise<string> {
  const time = Date.now() + laterMs;
  const click_id = newId('clk', time);
  const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  const recent = { click_id, app_id, link_id: ofLink, time, query: '', campaign: '', ...utm };
  const browser = { user_agent: safari, language: 'en-US' };
  await clicks.put([
    { click: recent, is_bot: false, near: { address: '198.51.100.7', browser, windowMs: 6 * HOUR_MS } },
  ]);
  return click_id;
}

async function match({ key }: Place, body: object) {
  return (await edge.post('/sdk/match', key, { ...iphone, device_id: 'd1', ...body })).body;
}

async function install({ key }: Place, body: object = {}) {
  return await edge.post('/sdk/install', key, { ...iphone, device_id: 'd1', ...body });
}

/** Backdates the answers and installs of the app's devices. */
async function age({ app_id }: Place, ms: number): Promise<void> {
  await edge.db.execute(
    'UPDATE install_answers SET created_at = created_at - make_interval(secs => $2) WHERE app_id = $1',
    [app_id, ms / 1000],
  );
}

function records({ app_id }: Place): InstallRecord[] {
  return edge.lines('install').flatMap((line) => {
    const record = decodeInstall(line);
    if (typeof record === 'string') throw new Error(record);
    return record.app_id === app_id ? [record] : [];
  });
}

const opensOf = (app: Place) => records(app).filter(({ trigger }) => trigger !== 'install' && trigger !== 'reinstall');

const evidence = {
  click_id: (click_id: string) => ({ click_id }),
  install_referrer: (click_id: string) => ({ platform: 'android', install_referrer: `click_id=${click_id}` }),
  clipboard: (click_id: string) => ({ clipboard_url: `https://x.localhost/first?click_id=${click_id}` }),
};

test.each(Object.entries(evidence))(
  'a device with an install that names a later click by %s gets its link, and the install keeps its own',
  async (match_type, named) => {
    const app = await place();
    const first = await click(app, -HOUR_MS);
    const answer = await match(app, { click_id: first });
    const installed = await install(app, { match_id: answer.match_id });
    await age(app, HOUR_MS / 2);
    const second = await click(app, -1_000, await linkOf(app, 'second'));
    const back = await match(app, named(second));
    expect(back).toMatchObject({ matched: true, match_type, click_id: second, link: { short_code: 'second' } });
    expect(await match(app, named(second))).toEqual(back);
    expect(await match(app, {})).toEqual(answer);
    expect(await match(app, { click_id: first })).toEqual(answer);
    const again = await install(app, { match_id: back.match_id });
    expect([again.status, again.body]).toEqual([200, { ...installed.body, duplicate: true }]);
    expect(records(app)).toMatchObject([
      { trigger: 'install', click_id: first, campaign: 'spring' },
      {
        ...{ trigger: 'reengagement', click_id: second, campaign: 'winback', device_id: 'd1', match_type },
        ...{ install_id: back.match_id, match_id: back.match_id, time: timeOfId(back.match_id), attributed: true },
      },
    ]);
    expect((await match(app, { ...named(second), device_id: 'd2' })).matched).toBe(false);
  },
);

test('a device gets a click at its address that was made after its answer, but none from before', async () => {
  const app = await place();
  const first = await click(app, -3 * HOUR_MS);
  const other = await linkOf(app, 'second');
  const answer = await match(app, { click_id: first });
  await install(app, { match_id: answer.match_id });
  await age(app, HOUR_MS);
  await click(app, -HOUR_MS, other);
  expect(await match(app, {})).toEqual(answer);
  const later = await click(app, 2_000, other);
  const back = await match(app, {});
  expect(back).toMatchObject({ match_type: 'probabilistic', click_id: later, link: { short_code: 'second' } });
  expect(await match(app, {})).toEqual(back);
  expect(opensOf(app)).toMatchObject([{ trigger: 'reengagement', click_id: later, match_type: 'probabilistic' }]);
});

test('if two links are equally likely after its answer, a device gets neither and keeps its answer', async () => {
  const app = await place();
  const answer = await match(app, { click_id: await click(app, -3 * HOUR_MS) });
  await click(app, 2_000, await linkOf(app, 'second'));
  await click(app, 2_100, await linkOf(app, 'third'));
  expect(await match(app, {})).toEqual(answer);
  expect(opensOf(app)).toEqual([]);
});

test('an unusable named click leaves a device with its answer, and one that is too recent is to be requested again', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const answer = await match(app, { click_id: await click(app, -HOUR_MS) });
  const taken = await click(app, -1_000);
  await match(app, { click_id: taken, device_id: 'd2' });
  expect(await match(app, { click_id: taken })).toEqual(answer);
  expect(await match(app, { click_id: newId('clk', Date.now()) })).toMatchObject({
    matched: false,
    reason: 'click_pending',
  });
});

test('old clicks that remain in a referrer or the clipboard rank after a new click', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const [first, second] = [await click(app, -HOUR_MS), await click(app, -1_000, await linkOf(app, 'second'))];
  await match(app, { install_referrer: `click_id=${first}` });
  const both = {
    install_referrer: `click_id=${first}`,
    clipboard_url: `https://x.localhost/first?click_id=${second}`,
  };
  const back = await match(app, both);
  expect(back).toMatchObject({ match_type: 'clipboard', click_id: second });
  expect((await match(app, { install_referrer: `click_id=${first}` })).click_id).toBe(first);
});

test('a click from before the install, or of a device without an install, gives its link and is not a re-engagement', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const [first, second] = [await click(app, -HOUR_MS), await click(app, -HOUR_MS / 2)];
  await match(app, { click_id: first });
  expect((await match(app, { click_id: second })).click_id).toBe(second);
  await install(app);
  const third = await click(app, -HOUR_MS / 4);
  expect((await match(app, { click_id: third })).click_id).toBe(third);
  expect(records(app)).toMatchObject([{ trigger: 'install', click_id: first }]);
});

test('an organic install that returns through a link is a re-engagement and stays organic', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const organic = await install(app);
  await age(app, HOUR_MS);
  const later = await click(app, -1_000);
  expect((await match(app, { click_id: later })).click_id).toBe(later);
  expect((await install(app)).body).toEqual({ ...organic.body, duplicate: true });
  expect(records(app)).toMatchObject([
    { trigger: 'install', attributed: false },
    { trigger: 'reengagement', click_id: later, attributed: true },
  ]);
});

test('a new install of a known device is a reinstall with its own attribution, and its request is not a re-engagement', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const first = await click(app, -HOUR_MS);
  const one = await install(app, { install_id: 'i1', click_id: first });
  await age(app, HOUR_MS / 2);
  const second = await click(app, -1_000, await linkOf(app, 'second'));
  const answer = await match(app, { install_id: 'i2', click_id: second });
  const two = await install(app, { install_id: 'i2', match_id: answer.match_id });
  expect([one.body.trigger, two.body.trigger, two.body.link.short_code]).toEqual(['install', 'reinstall', 'second']);
  expect((await install(app, { install_id: 'i2' })).body).toMatchObject({ trigger: 'reinstall', duplicate: true });
  expect((await install(app, { install_id: 'i1' })).body).toEqual({ ...one.body, duplicate: true });
  expect((await install(app, { install_id: 'i3' })).body.trigger).toBe('reinstall');
  expect(records(app).map(({ trigger, install_id }) => [trigger, install_id])).toEqual([
    ['install', 'i1'],
    ['reinstall', 'i2'],
    ['reinstall', 'i3'],
  ]);
});

test('an install without a device id is never a reinstall', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const nameless = () => install(app, { install_id: 'mine', device_id: undefined });
  expect((await nameless()).body).toMatchObject({ trigger: 'install', duplicate: false });
  expect((await nameless()).body).toMatchObject({ trigger: 'install', duplicate: true });
  expect(records(app).map(({ trigger }) => trigger)).toEqual(['install']);
});

test('of many concurrent installs of one device one is an install, and all others are reinstalls', async () => {
  const app = await place();
  const answers = await edge.crowd(40, (n) => install(app, { install_id: `i${n % 20}` }));
  const created = answers.filter(({ status }) => status === 201).map(({ body }) => body.trigger);
  expect(created.sort()).toEqual(['install', ...Array.from({ length: 19 }, () => 'reinstall')]);
  const recorded = new Map(records(app).map(({ install_id, trigger }) => [install_id, trigger]));
  expect([...recorded.values()].sort()).toEqual(created);
});

test('a link that opens the app is a click and an opening: a re-engagement on a known device, otherwise a deep link', async () => {
  const app = await place();
  const url = `https://${app.host}/first`;
  const unknown = await match(app, { url });
  const nameless = await match(app, { url, device_id: undefined });
  await install(app, { device_id: 'd3' });
  const known = await match(app, { url, device_id: 'd3' });
  expect(await match(app, { url, device_id: 'd3' })).toEqual(known);
  const opened = edge.lines('click').filter((line) => line.includes(app.app_id));
  expect(opened.map((line) => (decodeClick(line) as { click_id: string }).click_id)).toEqual(
    [unknown, nameless, known].map(({ click_id }) => click_id),
  );
  expect(opensOf(app).map(({ trigger, click_id }) => [trigger, click_id])).toEqual([
    ['deep_link', unknown.click_id],
    ['deep_link', nameless.click_id],
    ['reengagement', known.click_id],
  ]);
});

test('an install that names the link that opened it is only an install', async () => {
  const app = await place();
  const { body } = await install(app, { url: `https://${app.host}/first` });
  expect(body).toMatchObject({ attributed: true, match_type: 'url' });
  expect(records(app).map(({ trigger }) => trigger)).toEqual(['install']);
});

test('an opening that was not known to be recorded is recorded under the same id with the device’s next request', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  await install(app);
  await age(app, HOUR_MS);
  const later = await click(app, -1_000);
  const back = await match(app, { click_id: later });
  // Simulates a crash between the journal and Postgres, with and without the answer in Redis.
  const key = `match:${app.app_id}:d1`;
  for (const isForgotten of [false, true]) {
    await expect.poll(() => edge.redis.commands.exists(key)).toBe(1);
    await edge.db.execute('UPDATE claims SET is_open_due = true WHERE click_id = $1', [later]);
    await edge.redis.commands.del(key, ...(isForgotten ? [`claim:${later}`] : []));
    expect(await match(app, { click_id: later })).toEqual(back);
  }
  const opens = opensOf(app);
  expect(opens).toHaveLength(3);
  expect(new Set(opens.map(({ install_id, time }) => `${install_id} ${time}`)).size).toBe(1);
  expect(await edge.db.query('SELECT is_open_due FROM claims WHERE click_id = $1', [later])).toEqual([
    { is_open_due: false },
  ]);
});

test('a re-engagement requested many times at once gets one answer and one opening', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  await install(app);
  await age(app, HOUR_MS);
  const later = await click(app, -1_000);
  const answers = await edge.crowd(100, () =>
    edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1', click_id: later }),
  );
  expect(new Set(answers.map(({ body }) => body.match_id)).size).toBe(1);
  expect(new Set(opensOf(app).map(({ install_id }) => install_id)).size).toBe(1);
  expect(await edge.db.query('SELECT is_open_due FROM claims WHERE click_id = $1', [later])).toEqual([
    { is_open_due: false },
  ]);
});

test('a returning device keeps its answers after Redis lost everything', async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const first = await click(app, -HOUR_MS);
  const answer = await match(app, { click_id: first });
  const second = await click(app, -1_000, await linkOf(app, 'second'));
  const back = await match(app, { click_id: second });
  await edge.redis.commands.flushall();
  expect(await match(app, {})).toEqual(answer);
  await edge.redis.commands.flushall();
  expect((await match(app, { device_id: 'd2' })).matched).toBe(false);
  expect(await match(app, {})).toEqual(answer);
  expect(back.click_id).toBe(second);
});
