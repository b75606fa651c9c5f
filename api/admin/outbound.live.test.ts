import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { holdOutbound, resumeOutbound } from './outbound.ts';

let postgres: TestPostgres;
let db: Postgres;
beforeAll(async () => {
  postgres = await postgresForTest();
  db = new Postgres({ url: postgres.url, name: 'test' });
  await db.execute(`INSERT INTO organizations (id, name) VALUES ('org_1', 'One')`);
  await db.execute(
    `INSERT INTO webhook_endpoints (id, organization_id, url, events, secret_ciphertext, postback_method, created_at, updated_at, failing_since)
     VALUES ('hook', 'org_1', 'https://example.com/', '{link.created}', 'sealed', NULL, now(), now(), now() - interval '9 days'),
            ('postback', 'org_1', 'https://example.com/', '{install.recorded}', NULL, 'GET', now(), now(), NULL)`,
  );
});
beforeEach(async () => {
  await db.execute('DELETE FROM webhook_messages');
  await db.execute('DELETE FROM mails');
  await db.execute(`UPDATE installation SET outbound_held_since = now() - interval '1 hour', store = signpost_store()`);
  const messages = [
    ['old-1', 'hook', 'pending', '40 days'],
    ['old-2', 'postback', 'pending', '2 hours'],
    ['old-3', 'postback', 'delivered', '2 hours'],
    ['new-1', 'hook', 'pending', '1 minute'],
  ];
  for (const [id, endpoint, status, age] of messages)
    await db.execute(
      `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, created_at, due_at, data, status)
       VALUES ($1, $2, 'org_1', 'link.created', now() - $4::interval, now() - $4::interval, now() - $4::interval, '{}', $3)`,
      [id, endpoint, status, age],
    );
  for (const [id, age, ends] of [
    ['mail-1', '2 days', '1 day'],
    ['mail-2', '9 days', '-2 days'],
  ])
    await db.execute(
      `INSERT INTO mails (id, kind, recipient, sender_id, subject_id, content_ciphertext, created_at, expires_at)
       VALUES ($1, 'invitation', 'a@example.com', 'usr_1', 'inv_1', 'sealed', now() - $2::interval, now() + $3::interval)`,
      [id, age, ends],
    );
});
afterAll(async () => {
  await db.close();
  await postgres.stop();
});

const waiting = async () =>
  (
    await db.query<{ id: string }>(
      `SELECT id FROM webhook_messages WHERE status = 'pending' AND due_at <= now()
       UNION ALL SELECT id FROM mails WHERE state = 'waiting' AND created_at > now() - interval '8 days' ORDER BY id`,
    )
  ).map(({ id }) => id);
const heldSince = async () => (await db.query('SELECT outbound_held_since FROM installation'))[0];

test('what waits in a restored copy is sent on request, however old it is, and no webhook counts as failing', async () => {
  expect(await resumeOutbound(db, false)).toMatchObject({
    ...{ kind: 'resumed', webhooks: 2, postbacks: 1, mails: 1, expired_mails: 1, are_discarded: false },
  });
  expect(await waiting()).toEqual(['mail-1', 'mail-2', 'new-1', 'old-1', 'old-2']);
  expect(await db.query('SELECT FROM webhook_endpoints WHERE failing_since IS NOT NULL')).toEqual([]);
  expect(await heldSince()).toEqual({ outbound_held_since: null });
  expect(await resumeOutbound(db, false)).toMatchObject({ kind: 'refused' });
});

test('with --discard, what was due before the restore is dropped and counted, and what is newer is sent', async () => {
  expect(await resumeOutbound(db, true)).toMatchObject({ webhooks: 1, postbacks: 1, mails: 1, expired_mails: 1 });
  expect(await waiting()).toEqual(['new-1']);
  expect(await db.query(`SELECT id FROM webhook_messages WHERE status = 'failed' ORDER BY id`)).toEqual([
    { id: 'old-1' },
    { id: 'old-2' },
  ]);
});

test('a resume with --discard that is interrupted keeps the hold, and drops the rest when it is repeated', async () => {
  for (const id of ['old-4', 'old-5'])
    await db.execute(
      `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
       VALUES ($1, 'hook', 'org_1', 'link.created', now() - interval '2 hours', '{}')`,
      [id],
    );
  let statements = 0;
  const interrupted = new Proxy(db, {
    get: (target, name) =>
      name === 'execute' && ++statements > 2
        ? () => Promise.reject(new Error('killed'))
        : Reflect.get(target, name, target).bind(target),
  });
  await expect(resumeOutbound(interrupted, true, 1)).rejects.toThrow('killed');
  expect([await heldSince(), await waiting()]).toEqual([
    { outbound_held_since: expect.any(Date) },
    expect.arrayContaining(['mail-1', 'new-1']),
  ]);
  expect(await resumeOutbound(db, true, 1)).toMatchObject({ kind: 'resumed', mails: 1 });
  expect(await waiting()).toEqual(['new-1']);
});

test('nothing is discarded while records of before the restore still become messages', async () => {
  await db.execute(`INSERT INTO webhook_batches (log_partition, batch_no, batch_no_to, parts) VALUES (0, 1, 1, '[]')`);
  expect(await resumeOutbound(db, true)).toMatchObject({ kind: 'refused' });
  expect(await waiting()).toContain('old-2');
  await db.execute('DELETE FROM webhook_batches');
});

test('hold-outbound holds a copy that was not recognized, and a second call does not move the time', async () => {
  await resumeOutbound(db, false);
  await holdOutbound(db);
  const since = await heldSince();
  await holdOutbound(db);
  expect([await heldSince(), since]).toEqual([since, { outbound_held_since: expect.any(Date) }]);
});
