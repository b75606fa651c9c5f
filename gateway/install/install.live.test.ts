import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { RecentInstalls } from '#common/attribution/recent-installs.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { decodeInstall } from '#common/log/install-record.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';

let edge: SdkEdge;
let clicks: RecentClicks;
let installs: RecentInstalls;
beforeAll(async () => {
  edge = await SdkEdge.start();
  clicks = new RecentClicks(edge.redis);
  installs = new RecentInstalls(edge.redis);
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

async function place() {
  const app = await edge.app();
  const link_id = await edge.link(app.app_id, 'summer', { campaign: 'sale', utm_source: 'mail' });
  return { ...app, link_id };
}

async function click({ app_id, link_id }: { app_id: string; link_id: string }, query = '') {
  const time = Date.now() - 1000;
  const click_id = newId('clk', time);
  const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  const recent = { click_id, app_id, link_id, time, query, campaign: '', ...utm };
  await clicks.put([{ click: recent, is_bot: false, near: null }]);
  return click_id;
}

function recorded(app_id: string) {
  return edge
    .lines('install')
    .map((line) => {
      const install = decodeInstall(line);
      if (typeof install === 'string') throw new Error(install);
      return install;
    })
    .filter((install) => install.app_id === app_id);
}

const ids = (app_id: string) => new Set(recorded(app_id).map(({ install_id }) => install_id));

test('an attributed install is answered, recorded and found by events', async () => {
  const app = await place();
  const click_id = await click(app);
  const body = {
    ...{ platform: 'android', os_version: '14', device_id: 'd1', user_id: 'u1', properties: { a: 'ü' } },
    install_referrer: `click_id=${click_id}`,
  };
  const answer = await edge.post('/sdk/install', app.key, body);
  expect(answer.status).toBe(201);
  expect(answer.body).toMatchObject({
    attributed: true,
    match_type: 'install_referrer',
    match_guaranteed: true,
    confidence: 1,
    click_id,
    link: { id: app.link_id, short_code: 'summer' },
    campaign: 'sale',
    duplicate: false,
  });
  expect(answer.body.install_id).toMatch(/^ins_[0-9a-z]{26}$/);
  expect(recorded(app.app_id)).toMatchObject([
    {
      install_id: answer.body.install_id,
      click_id,
      link_id: app.link_id,
      campaign: 'sale',
      utm_source: 'mail',
      attributed: true,
      device_id: 'd1',
      user_id: 'u1',
      properties: '{"a":"ü"}',
      ip: '198.51.100.7',
    },
  ]);
  const [byId] = await installs.byKeys([`install:${app.app_id}:${answer.body.install_id}`]);
  const [byDevice] = await installs.byKeys([`device:${app.app_id}:d1`]);
  expect([byId?.link_id, byDevice?.install_id]).toEqual([app.link_id, answer.body.install_id]);
});

test('an install, its events and an opening have the utm parameters with which their link was visited', async () => {
  const app = await place();
  const long = 'x'.repeat(300);
  const click_id = await click(app, `utm_source=partner&utm_content=${long}&ref=a`);
  const body = { platform: 'ios', device_id: 'd1', click_id };
  const { install_id } = (await edge.post('/sdk/install', app.key, body)).body;
  const expected = { campaign: 'sale', utm_source: 'partner', utm_medium: '', utm_content: long.slice(0, 255) };
  expect(recorded(app.app_id)).toMatchObject([{ ...expected, install_id }]);
  expect(await installs.byKeys([`install:${app.app_id}:${install_id}`])).toMatchObject([expected]);
  await edge.post('/sdk/match', app.key, {
    platform: 'ios',
    device_id: 'd2',
    url: `https://${app.host}/summer?utm_source=page`,
  });
  expect(recorded(app.app_id).at(-1)).toMatchObject({ device_id: 'd2', trigger: 'deep_link', utm_source: 'page' });
  expect(JSON.parse(edge.lines('click').at(-1) ?? '')).toMatchObject({ utm_source: 'page' });
});

test('an install that is resent, by its id, after a restart or after Redis lost everything gets the first answer', async () => {
  const app = await place();
  const click_id = await click(app);
  const body = { platform: 'ios', device_id: 'd1', click_id };
  const { body: first } = await edge.post('/sdk/install', app.key, body);
  const expected = { ...first, duplicate: true };
  expect(await edge.post('/sdk/install', app.key, body)).toMatchObject({ status: 200, body: expected });
  const byId = { platform: 'ios', install_id: first.install_id };
  expect(await edge.post('/sdk/install', app.key, byId)).toMatchObject({ status: 200, body: expected });
  await edge.close();
  await edge.redis.commands.flushall();
  await edge.open();
  expect(await edge.post('/sdk/install', app.key, body)).toMatchObject({ status: 200, body: expected });
  expect(recorded(app.app_id)).toHaveLength(1);
});

test('one click is attributed to one install, even after Redis lost its claim', async () => {
  const app = await place();
  const click_id = await click(app);
  const first = await edge.post('/sdk/install', app.key, { platform: 'ios', device_id: 'd1', click_id });
  const second = await edge.post('/sdk/install', app.key, { platform: 'ios', device_id: 'd2', click_id });
  await edge.redis.commands.del(`claim:${click_id}`, `match:${app.app_id}:d1`);
  const third = await edge.post('/sdk/install', app.key, { platform: 'ios', device_id: 'd3', click_id });
  expect([first.body.attributed, second.body.attributed, third.body.attributed]).toEqual([true, false, false]);
  expect([first.status, second.status, third.status]).toEqual([201, 201, 201]);
});

test('an install uses the result of a match by its id', async () => {
  const app = await place();
  const click_id = await click(app);
  const match = await edge.post('/sdk/match', app.key, { platform: 'ios', click_id, device_id: 'd1' });
  const install = await edge.post('/sdk/install', app.key, {
    platform: 'ios',
    device_id: 'd1',
    match_id: match.body.match_id,
  });
  expect(install.body).toMatchObject({ attributed: true, match_type: 'click_id', click_id });
});

test('a link that opened the app can be referred to for the whole attribution window', async () => {
  const app = await place();
  const url = `https://${app.host}/summer`;
  const { body: match } = await edge.post('/sdk/match', app.key, { platform: 'ios', url, device_id: 'd1' });
  expect(match.match_type).toBe('url');
  const keptMs = await edge.redis.commands.pttl(`match_id:${match.match_id}`);
  expect(keptMs).toBeGreaterThan(167 * HOUR_MS);
  const repeatedMs = await edge.redis.commands.pttl(`open:${app.app_id}:d1:${url}`);
  expect(repeatedMs).toBeLessThanOrEqual(10_000);
  // Simulates that this time has passed: the key that detects repeated openings has expired.
  await edge.redis.commands.del(`open:${app.app_id}:d1:${url}`);
  const answer = await edge.post('/sdk/install', app.key, {
    platform: 'ios',
    device_id: 'd1',
    match_id: match.match_id,
  });
  expect(answer.body).toMatchObject({
    attributed: true,
    match_type: 'url',
    match_guaranteed: true,
    click_id: match.click_id,
    link: { id: app.link_id },
    campaign: 'sale',
  });
  // The link opened the app before there was an install.
  expect(recorded(app.app_id)).toMatchObject([
    { trigger: 'deep_link', match_id: match.match_id, link_id: app.link_id },
    { trigger: 'install', match_id: match.match_id, link_id: app.link_id },
  ]);
});

test('an install without a click is organic, and one without a required field gets 400', async () => {
  const app = await place();
  const organic = await edge.post('/sdk/install', app.key, { platform: 'ios', install_id: 'mine-1' });
  expect(organic).toMatchObject({
    status: 201,
    body: { install_id: 'mine-1', attributed: false, match_type: 'none', link: null },
  });
  for (const [body, field] of [
    [{ platform: 'ios' }, 'install_id'],
    [{ device_id: 'd' }, 'platform'],
    [{ platform: 'ios', device_id: 'd', installed_at: 'soon' }, 'installed_at'],
    [{ platform: 'ios', device_id: 'd', installed_at: Date.now() + 7_200_000 }, 'installed_at'],
    [{ platform: 'ios', device_id: 'd', installed_at: 0 }, 'installed_at'],
    [{ platform: 'ios', device_id: 'd', installed_at: '' }, 'installed_at'],
    [{ platform: 'ios', device_id: 'd', installed_at: 1_795_241_128 }, 'installed_at'],
    [{ platform: 'ios', device_id: 'd', installed_at: '2015-01-01T00:00:00Z' }, 'installed_at'],
    [{ platform: 'ios', device_id: 'd', properties: { text: 'x'.repeat(40_000) } }, 'properties'],
  ] as const) {
    const answer = await edge.post('/sdk/install', app.key, body);
    expect([answer.status, answer.body.error.details.field]).toEqual([400, field]);
  }
});

test('many concurrent installs of a few devices are stored as one install per device', async () => {
  const app = await place();
  const devices = 100;
  // Several for the same device at the same time, others soon after.
  const answers = await edge.crowd(10 * devices, (n) => {
    const device_id = `d${n % devices}`;
    const body = { platform: 'ios', device_id, ...(n % 3 === 0 ? {} : { app_version: String(n) }) };
    return edge.post('/sdk/install', app.key, body);
  });
  const ofStatus = (wanted: number) => answers.filter(({ status }) => status === wanted).length;
  expect(answers.filter(({ status }) => status >= 400).map(({ body }) => body)).toEqual([]);
  expect([ofStatus(201), ofStatus(200)]).toEqual([devices, 9 * devices]);
  expect(new Set(answers.map(({ body }) => body.install_id)).size).toBe(devices);
  expect(ids(app.app_id).size).toBe(devices);
}, 60_000);
