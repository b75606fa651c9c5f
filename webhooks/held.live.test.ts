/** What a restored copy, or a process with a wrong SECRET_KEY, does with messages that it may not send. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DAY_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import { type WebhooksStage, webhooksStage } from './testing/webhooks-stage.ts';

let stage: WebhooksStage;
beforeAll(async () => {
  stage = await webhooksStage();
});
afterAll(() => stage.stop());

const statuses = async (endpointId: string) =>
  Object.fromEntries(
    (
      await stage.db.query<{ status: string; count: number }>(
        'SELECT status, count(*) AS count FROM webhook_messages WHERE endpoint_id = $1 GROUP BY status',
        [endpointId],
      )
    ).map(({ status, count }) => [status, count]),
  );

test('a copy that holds its messages keeps at most the maximum of each endpoint, the oldest, and counts the others', async () => {
  const endpoint = await stage.endpoint('https://example.com/');
  const ids = await stage.addMessages(endpoint, 25);
  const chores = stage.newChores({ maySend: () => false, isHeld: () => true, pendingMax: 20 });
  await chores.look();
  expect([await statuses(endpoint.id), chores.beyondHeld]).toEqual([{ pending: 20, failed: 5 }, 5]);
  expect((await stage.message(ids[19] ?? ''))?.status).toBe('pending');
  expect(await stage.endpointRow(endpoint.id)).toMatchObject({ disabled_reason: null });
  await stage.addMessages(endpoint, 3);
  await chores.look();
  expect([chores.beyondHeld, chores.backlog]).toEqual([8, { pending: 23, overdueMs: 0 }]);
});

test('what was held neither disables its endpoint nor is deleted for its age once it may be sent, but what follows counts', async () => {
  const endpoint = await stage.endpoint('https://example.com/');
  await stage.addMessages(endpoint, 25);
  await stage.db.execute(`UPDATE webhook_messages SET created_at = now() - interval '40 days' WHERE endpoint_id = $1`, [
    endpoint.id,
  ]);
  await stage.db.execute('UPDATE installation SET outbound_resumed_at = now()');
  stage.nowMs = Date.now() + MINUTE_MS;
  await stage.chores(20);
  expect([await statuses(endpoint.id), await stage.endpointRow(endpoint.id)]).toMatchObject([
    { pending: 25 },
    { disabled_reason: null },
  ]);
  await stage.addMessages(endpoint, 21);
  await stage.chores(20);
  expect(await stage.endpointRow(endpoint.id)).toMatchObject({ disabled_reason: 'backlog' });
  await stage.db.execute('DELETE FROM webhook_messages');
});

test('what was held is deleted 30 days after it may be sent', async () => {
  const endpoint = await stage.endpoint('https://example.com/');
  await stage.addMessages(endpoint, 2);
  await stage.db.execute(`UPDATE webhook_messages SET created_at = now() - interval '70 days' WHERE endpoint_id = $1`, [
    endpoint.id,
  ]);
  await stage.db.execute(`UPDATE installation SET outbound_resumed_at = now() - interval '31 days'`);
  await stage.chores();
  expect(await statuses(endpoint.id)).toEqual({});
});

test('a process with a wrong SECRET_KEY measures for how long messages have been due', async () => {
  const endpoint = await stage.endpoint('https://example.com/');
  await stage.addMessages(endpoint);
  stage.nowMs += DAY_MS;
  const chores = stage.newChores({ maySend: () => false });
  await chores.look();
  expect(chores.backlog.pending).toBe(1);
  expect(chores.backlog.overdueMs).toBeGreaterThan(DAY_MS - SECOND_MS);
});

test('a failure at a time before its endpoint existed does not disable the endpoint at the next one', async () => {
  const endpoint = await stage.endpoint('http://127.0.0.1:9/');
  await stage.addMessages(endpoint, 2);
  const now = stage.nowMs;
  stage.nowMs = Date.parse('2023-01-01T00:00:00Z');
  await stage.db.execute('UPDATE webhook_messages SET due_at = $1', [new Date(stage.nowMs)]);
  await stage.deliverAll();
  stage.nowMs = now;
  await stage.db.execute('UPDATE webhook_messages SET due_at = $1', [new Date(stage.nowMs)]);
  await stage.deliverAll();
  expect(await stage.outcomes(endpoint)).toHaveLength(2 + 2);
  expect(await stage.endpointRow(endpoint.id)).toMatchObject({
    disabled_reason: null,
    failing_since: expect.any(Date),
  });
});
