/** Webhook messages created by triggers: changed codes of links, finished imports, failed audits. */
import { type ChildProcess, spawn } from 'node:child_process';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { PostgresAuditTurns } from '#api/analytics/audit-turns.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import type { AuditFailure } from '#clickhouse/queries/audit.ts';
import { HOUR_MS } from '#common/durations.ts';
import { bodyValidator } from '#common/http/validation.ts';
import { newId } from '#common/ids.ts';
import { childEnvironment } from '#common/process/config.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { type WebhookEventType, webhookEvents } from '#common/webhooks/webhook-events.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let app: { id: string };
let child: ChildProcess | undefined;

beforeAll(async () => {
  api = await apiForTest();
  [owner, stranger] = [await api.member(), await api.member()];
  app = (await owner.call('POST', '/apps', { name: 'Facts' })).body;
});
afterEach(async () => {
  child?.kill('SIGKILL');
  child = undefined;
  await api.db.execute('DELETE FROM webhook_endpoints');
  expect(api.failures.splice(0)).toEqual([]);
});
afterAll(() => api.stop());

async function newWebhook(events: WebhookEventType[], more: object = {}, member = owner): Promise<string> {
  const { status, body } = await member.call('POST', '/webhooks', {
    url: 'https://hooks.example.com/signpost',
    events,
    ...more,
  });
  expect([status, body.error]).toEqual([201, undefined]);
  return body.id;
}

interface StoredMessage {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Oldest first. */
async function messagesOf(endpoint: string): Promise<StoredMessage[]> {
  const sql = 'SELECT type, data FROM webhook_messages WHERE endpoint_id = $1 ORDER BY created_at, id';
  const messages = await api.db.query<StoredMessage>(sql, [endpoint]);
  for (const { type, data } of messages)
    if (type === 'import.finished' || type === 'audit.failed')
      expect(bodyValidator(webhookEvents[type].data)(data, [])).toBeNull();
  return messages;
}

const codesIn = async (endpoint: string) =>
  (await messagesOf(endpoint)).map(({ type, data }) => [type, data['other_codes']]);

const addCodes = `INSERT INTO link_codes (organization_id, app_id, code, link_id, created_at)
  SELECT l.organization_id, l.app_id, c, l.id, now() FROM links l CROSS JOIN unnest($2::text[]) AS c WHERE l.id = $1
  ON CONFLICT DO NOTHING`;

test('a change of only the other codes of a link creates one link.updated message, with its codes', async () => {
  const { id } = (await owner.call('POST', '/links', { app_id: app.id, path: '/x', short_code: 'coded' })).body;
  const other = (await owner.call('POST', '/links', { app_id: app.id, path: '/y', short_code: 'coded-2' })).body;
  const [updated, created] = [await newWebhook(['link.updated']), await newWebhook(['link.created'])];
  const foreign = await newWebhook(['link.updated'], {}, stranger);
  await api.db.execute(addCodes, [id, ['b', 'a']]);
  // The codes already exist.
  await api.db.execute(addCodes, [id, ['a', 'coded']]);
  await api.db.execute("UPDATE link_codes SET code = 'c' WHERE link_id = $1 AND code = 'b'", [id]);
  await api.db.execute('UPDATE link_codes SET created_at = now() WHERE link_id = $1', [id]);
  await api.db.execute("DELETE FROM link_codes WHERE link_id = $1 AND code = 'a'", [id]);
  await api.db
    .transaction(async (queries) => {
      await queries.execute(addCodes, [id, ['rolled-back']]);
      throw new Error('undone');
    })
    .catch(() => undefined);
  expect(await codesIn(updated)).toEqual([
    ['link.updated', ['a', 'b']],
    ['link.updated', ['a', 'c']],
    ['link.updated', ['c']],
  ]);
  await api.db.execute("UPDATE link_codes SET link_id = $2 WHERE link_id = $1 AND code = 'c'", [id, other.id]);
  const moved = (await messagesOf(updated)).slice(3).map(({ data }) => [data['short_code'], data['other_codes']]);
  expect(moved.sort()).toEqual([
    ['coded', []],
    ['coded-2', ['c']],
  ]);
  expect([await messagesOf(created), await messagesOf(foreign)]).toEqual([[], []]);
});

test('codes that are created and deleted with their link are part of link.created and link.deleted, not a separate update', async () => {
  const endpoint = await newWebhook(['link.created', 'link.updated', 'link.deleted']);
  const updates = await newWebhook(['link.updated']);
  const { id } = (await owner.call('POST', '/imports', { app_id: app.id, source: 'csv' })).body;
  await api.db.execute(
    `INSERT INTO import_parts (import_id, organization_id, app_id, number, bytes) SELECT id, organization_id, app_id, 1, $2 FROM imports WHERE id = $1`,
    [id, Buffer.from('code,other codes,destination\nmain,m3|m2,https://e.example/1\n')],
  );
  await api.db.execute('UPDATE imports SET parts = 1 WHERE id = $1', [id]);
  for (const step of ['check', 'confirm', 'undo']) {
    expect((await owner.call('POST', `/imports/${id}/${step}`, {})).status).toBe(200);
    while (await api.imports.work(id));
  }
  expect(await codesIn(endpoint)).toEqual([
    ['link.created', ['m2', 'm3']],
    ['link.deleted', ['m2', 'm3']],
  ]);
  expect(await messagesOf(updates)).toEqual([]);
});

/** Creates an import whose dry run is done. */
async function checkedImport(rows: number, name: string): Promise<string> {
  const { id } = (await owner.call('POST', '/imports', { app_id: app.id, source: 'csv' })).body;
  const lines = Array.from({ length: rows }, (_, n) => `${name}-${n},https://e.example/${n}`);
  await api.db.execute(
    `INSERT INTO import_parts (import_id, organization_id, app_id, number, bytes) SELECT id, organization_id, app_id, 1, $2 FROM imports WHERE id = $1`,
    [id, Buffer.from(`code,destination\n${lines.join('\n')}\n`)],
  );
  await api.db.execute('UPDATE imports SET parts = 1 WHERE id = $1', [id]);
  await step(id, 'check');
  return id;
}

async function step(id: string, name: 'check' | 'confirm' | 'undo'): Promise<void> {
  expect((await owner.call('POST', `/imports/${id}/${name}`, {})).status).toBe(200);
  while (await api.imports.work(id));
}

test('an import that finishes creates one message, in each of its final states', async () => {
  const endpoint = await newWebhook(['import.finished'], { app_ids: [app.id] });
  const foreign = await newWebhook(['import.finished'], {}, stranger);
  const otherApp = (await owner.call('POST', '/apps', { name: 'No imports' })).body.id;
  const ofOther = await newWebhook(['import.finished'], { app_ids: [otherApp] });
  const id = await checkedImport(3, 'ends');
  expect(await messagesOf(endpoint)).toEqual([]);
  await step(id, 'confirm');
  await step(id, 'confirm');
  await step(id, 'undo');
  const failing = (await owner.call('POST', '/imports', { app_id: app.id, source: 'csv' })).body.id;
  await api.db.execute(
    `INSERT INTO import_parts (import_id, organization_id, app_id, number, bytes) SELECT id, organization_id, app_id, 1, 'no,columns' FROM imports WHERE id = $1`,
    [failing],
  );
  await api.db.execute('UPDATE imports SET parts = 1 WHERE id = $1', [failing]);
  await step(failing, 'check');
  const rows = { new: 3, same: 0, conflict: 0, unsupported: 0 };
  const of = { id, app_id: app.id, source: 'csv', problem: null, rows, created_by: owner.user_id };
  const facts = (await messagesOf(endpoint)).map(({ type, data }) => ({ type, ...data }));
  expect(facts).toMatchObject([
    { type: 'import.finished', ...of, state: 'imported', results: { created: 3, taken: 0, removed: 0, kept: 0 } },
    { type: 'import.finished', ...of, state: 'undone', results: { created: 3, taken: 0, removed: 3, kept: 0 } },
    { type: 'import.finished', id: failing, state: 'failed', rows: { new: 0 }, results: { created: 0 } },
  ]);
  const read = (await owner.call('GET', `/imports/${failing}`)).body;
  expect(facts[2]).toMatchObject({ problem: read.problem, created_at: read.created_at });
  expect([await messagesOf(foreign), await messagesOf(ofOther)]).toEqual([[], []]);
});

test('an import whose process is killed before its last transaction commits creates one message, when another process finishes it', {
  tags: ['slow'],
  timeout: 120_000,
}, async () => {
  const endpoint = await newWebhook(['import.finished']);
  const id = await checkedImport(1_200, 'killed');
  const read = async () => (await owner.call('GET', `/imports/${id}`)).body.state;
  const blocker = new Postgres({ url: api.databaseUrl, name: 'blocker' });
  // The last transaction waits for this one, because both add the same message.
  await blocker
    .transaction(async (queries) => {
      await queries.execute(
        `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
         SELECT signpost_webhook_message_id(id, 'import.finished ' || $2 || ' imported'), id, organization_id, 'blocked', now(), '{}'
           FROM webhook_endpoints WHERE id = $1`,
        [endpoint, id],
      );
      const env = childEnvironment({ DATABASE_URL: api.databaseUrl });
      child = spawn(process.execPath, ['dist/deploy/local/admin.js', 'import', '--confirm', id], {
        env,
        stdio: 'ignore',
      });
      const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%UPDATE imports%'`;
      await expect.poll(() => api.db.query(waiting), { timeout: 60_000 }).toHaveLength(1);
      child.kill('SIGKILL');
      await expect.poll(() => child?.signalCode).toBe('SIGKILL');
      throw new Error('undone');
    })
    .catch((error: Error) => expect(error.message).toBe('undone'));
  await blocker.close();
  const ownProcesses = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%UPDATE imports%' AND pid <> pg_backend_pid() AND state <> 'idle'`;
  await expect.poll(() => api.db.query(ownProcesses)).toEqual([]);
  expect(await read()).toBe('importing');
  expect(await messagesOf(endpoint)).toEqual([]);
  await api.db.execute(`UPDATE imports SET worker_until = now() - interval '1 second' WHERE id = $1`, [id]);
  while (await api.imports.work(id));
  expect(await read()).toBe('imported');
  expect(await messagesOf(endpoint)).toMatchObject([
    { type: 'import.finished', data: { id, state: 'imported', results: { created: 1_200 } } },
  ]);
});

const none = { lost: 0, duplicated: 0, rollup_difference: 0 };
const firstHour = Date.parse('2026-04-10T00:00:00Z');

/** An audit process that finds the given problems. */
async function auditing(work: (audit: (hour: number, failures: AuditFailure[]) => Promise<void>) => Promise<void>) {
  await api.db.execute('DELETE FROM hourly_audits');
  const url = new URL(api.databaseUrl);
  const db = new Postgres({ url: url.href, name: 'auditing' });
  const turns = new PostgresAuditTurns(db, 'auditor');
  try {
    await work(async (hour, failures) => {
      const at = firstHour + hour * HOUR_MS;
      expect(await turns.begin(at)).toEqual({ kind: 'mine' });
      const found = { ...none };
      for (const { fault, count } of failures) found[fault] += count ?? 1;
      await turns.done(at, { figures: found, failures });
      await turns.done(at, { figures: found, failures });
    });
  } finally {
    await db.close();
  }
}

const auditsIn = async (endpoint: string) =>
  (await messagesOf(endpoint)).map(({ data: { hour, fault, app_id, count } }) => [
    (Date.parse(String(hour)) - firstHour) / HOUR_MS,
    ...[fault, app_id, count],
  ]);

test('an audit failure creates one message when it starts, only for its organization', async () => {
  const [mine, other] = [app.id, (await owner.call('POST', '/apps', { name: 'Audited' })).body.id];
  const foreignApp = (await stranger.call('POST', '/apps', { name: 'Foreign' })).body.id;
  const all = await newWebhook(['audit.failed']);
  const ofOther = await newWebhook(['audit.failed'], { app_ids: [other] });
  const foreign = await newWebhook(['audit.failed'], {}, stranger);
  const unasked = await newWebhook(['link.created']);
  const { organization_id } = owner;
  const duplicated = (app_id: string, count: number): AuditFailure => ({
    ...{ fault: 'duplicated', organization_id, app_id, count },
  });
  const theirs = { ...duplicated(foreignApp, 70), organization_id: stranger.organization_id };
  await auditing(async (audit) => {
    await audit(0, []);
    await audit(1, [duplicated(mine, 3), theirs]);
    await audit(2, [duplicated(mine, 5), theirs]);
    await audit(3, [duplicated(mine, 5), { ...duplicated(other, 2), fault: 'rollup_difference' }]);
    await audit(4, []);
    await audit(5, [duplicated(mine, 1)]);
  });
  expect(await auditsIn(all)).toEqual([
    [1, 'duplicated', mine, 3],
    [3, 'rollup_difference', other, 2],
    [5, 'duplicated', mine, 1],
  ]);
  expect(await auditsIn(ofOther)).toEqual([[3, 'rollup_difference', other, 2]]);
  expect(await auditsIn(foreign)).toEqual([[1, 'duplicated', foreignApp, 70]]);
  expect(await messagesOf(unasked)).toEqual([]);
});

test('lost clicks, whose organization is unknown, create a message without a number for every subscribed endpoint', async () => {
  const [mine, theirs] = [await newWebhook(['audit.failed']), await newWebhook(['audit.failed'], {}, stranger)];
  const lost: AuditFailure = { fault: 'lost', organization_id: null, app_id: null, count: null };
  await auditing(async (audit) => {
    await audit(0, [lost]);
    await audit(1, [lost]);
  });
  for (const endpoint of [mine, theirs]) expect(await auditsIn(endpoint)).toEqual([[0, 'lost', null, null]]);
});

test('an unfinished audit creates no message; the process that takes over creates one', async () => {
  const endpoint = await newWebhook(['audit.failed']);
  await api.db.execute('DELETE FROM hourly_audits');
  const [first, second] = ['first', 'second'].map((name) => new PostgresAuditTurns(api.db, name));
  const failures: AuditFailure[] = [
    { fault: 'duplicated', organization_id: owner.organization_id, app_id: newId('app', 1), count: 1 },
  ];
  const report = { figures: { ...none, duplicated: 1 }, failures };
  expect(await first?.begin(firstHour)).toEqual({ kind: 'mine' });
  expect(await second?.begin(firstHour)).toEqual({ kind: 'others' });
  await api.db.execute(`UPDATE hourly_audits SET claimed_until = now() - interval '1 second'`);
  expect(await second?.begin(firstHour)).toEqual({ kind: 'mine' });
  await second?.done(firstHour, report);
  await first?.done(firstHour, report);
  expect(await messagesOf(endpoint)).toHaveLength(1);
});
