/** Rows of the audit log that Postgres does not take at first. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { systemClock } from '#common/clock.ts';
import type { Request } from '#common/http/route.ts';
import { createLog } from '#common/process/telemetry.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { AuditTrail } from './audit-trail.ts';
import type { UserCaller } from './route.ts';

let server: TestPostgres;
let db: Postgres;
let lines: string[];
let trail: AuditTrail;
let requests = 0;

beforeAll(async () => {
  server = await postgresForTest();
  db = new Postgres({ url: server.url, name: 'audit-trail-test' });
  await db.execute("INSERT INTO organizations (id, name) VALUES ('org_a', 'A')");
});
afterAll(async () => {
  await db.close();
  await server.stop();
});
beforeEach(() => {
  lines = [];
  const log = createLog('test', { LOG_LEVEL: 'info', INSTANCE: '' }, { write: (line) => lines.push(line) });
  trail = new AuditTrail(db, systemClock, log);
});

const refuseRows = () => db.execute('ALTER TABLE audit_log ADD CONSTRAINT unwritable CHECK (false) NOT VALID');
const takeRows = () => db.execute('ALTER TABLE audit_log DROP CONSTRAINT unwritable');

/** Notes a change of an organization. @returns the id of its request. */
async function note(): Promise<string> {
  const id = `req_${requests++}`;
  const memberships = [{ organization_id: 'org_a', role: 'owner' }];
  const caller = { kind: 'user', user_id: 'usr_a', memberships } as unknown as UserCaller;
  const request = {
    id,
    ip: '203.0.113.7',
    caller,
    params: {},
    query: {},
    body: { organization_id: 'org_a', name: 'B' },
  };
  await trail.note('updateOrganization', request as unknown as Request, { status: 200, body: {} });
  return id;
}

async function rowsOf(requestId: string): Promise<number> {
  return (await db.query('SELECT FROM audit_log WHERE request_id = $1', [requestId])).length;
}

test('a row that waits for its next attempt is written when the process stops', async () => {
  await refuseRows();
  const id = await note();
  await takeRows();
  expect(await rowsOf(id)).toBe(0);
  await trail.stop();
  expect([await rowsOf(id), trail.counters.lost]).toEqual([1, 0]);
});

test('a row that is refused when the process stops is counted and logged, without the address of the caller', async () => {
  await refuseRows();
  const id = await note();
  const failures = trail.counters.failures;
  await trail.stop();
  await takeRows();
  expect([failures, trail.counters]).toEqual([1, { failures: 2, lost: 1 }]);
  const names = { operation_id: 'updateOrganization', actor_id: 'usr_a', organization_id: 'org_a', request_id: id };
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { msg: 'writing a row of the audit log failed; retrying', ...names },
    { msg: 'a row of the audit log could not be written', ...names },
  ]);
  for (const text of ['203.0.113.7', 'memberships']) expect(lines.join('')).not.toContain(text);
});

test('a row that fails after the stop began is lost at once', async () => {
  await refuseRows();
  await trail.stop();
  await note();
  await takeRows();
  expect(trail.counters.lost).toBe(1);
});

test('the stop does not wait longer than its limit, and counts a row without an answer once', async () => {
  await refuseRows();
  await note();
  await takeRows();
  const isWaiting = `NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  const waiting = async (what = '') => (await db.query(`SELECT ${what} FROM pg_locks WHERE ${isWaiting}`)).length;
  await db.transaction(async (queries) => {
    await queries.execute('LOCK TABLE audit_log IN ACCESS EXCLUSIVE MODE');
    await trail.stop(50);
    expect(trail.counters.lost).toBe(1);
    await expect.poll(() => waiting('pg_cancel_backend(pid)')).toBe(1);
    await expect.poll(() => waiting()).toBe(0);
  });
  expect(trail.counters).toEqual({ failures: 1, lost: 1 });
});
