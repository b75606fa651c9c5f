import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';
import { InstallRetention } from './install-retention.ts';

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start();
});
afterAll(() => edge.stop());

test('installs older than the retention are deleted with their identifiers, a few at a time, and those stay that are newer by either clock', async () => {
  const app = await edge.app();
  const install = (device_id: string) => edge.post('/sdk/install', app.key, { platform: 'ios', device_id });
  const first = [await install('old-1'), await install('old-2'), await install('old-3')];
  const retention = new InstallRetention({
    db: edge.db,
    retentionDays: 30,
    log: { warn: () => undefined },
  });
  await edge.db.execute(
    `UPDATE install_answers SET created_at = now() - interval '31 days', stored_at = now() - interval '31 days'`,
  );
  // Two were stored, or made, while a clock was 800 days behind.
  await edge.db.execute(
    `INSERT INTO install_answers (app_id, install_id, answer, created_at, stored_at)
     VALUES ($1, $2, '{}', now(), now() - interval '800 days'), ($1, $3, '{}', now() - interval '800 days', now())`,
    [app.app_id, newId('ins', 1), newId('ins', 2)],
  );
  expect([await retention.step(2), await retention.step(2), await retention.step(2)]).toEqual([2, 1, 0]);
  const left = await edge.db.query(
    'SELECT (SELECT count(*) FROM install_names) AS names, (SELECT count(*) FROM install_answers) AS installs',
  );
  expect(left).toEqual([{ names: 0, installs: 2 }]);
  const again = await install('old-1');
  expect([again.status, again.body.duplicate]).toEqual([201, false]);
  expect(again.body.install_id).not.toBe(first[0]?.body.install_id);
});

test('an alias that was not renewed for longer than any attribution window is deleted', async () => {
  const { app_id } = await edge.app();
  for (const [id, days] of [
    ['old-1', 91],
    ['old-2', 92],
    ['young', 1],
  ]) {
    await edge.db.execute(
      `INSERT INTO device_aliases (app_id, id, previous_id, made_at) VALUES ($1, $2, 'd', now() - make_interval(days => $3))`,
      [app_id, id, days],
    );
  }
  const log = { warn: () => undefined };
  const retention = new InstallRetention({ db: edge.db, retentionDays: 400, log });
  expect([await retention.stepAliases(1), await retention.stepAliases(5), await retention.stepAliases(5)]).toEqual([
    1, 1, 0,
  ]);
  expect(await edge.db.query('SELECT id FROM device_aliases WHERE app_id = $1', [app_id])).toEqual([{ id: 'young' }]);
});

test('while the clock of Postgres is 800 days ahead, an install is not deleted before the deletion clock has reached its end', async () => {
  const { app_id } = await edge.app();
  const behind = (days: number) =>
    edge.db.execute(`UPDATE ingest.deletion_clock SET reached = now() - make_interval(days => $1)`, [days]);
  await edge.db.execute(
    `INSERT INTO install_answers (app_id, install_id, answer, created_at, stored_at)
     VALUES ($1, $2, '{}', now() - interval '801 days', now() - interval '801 days')`,
    [app_id, newId('ins', 3)],
  );
  await edge.db.execute(
    `INSERT INTO device_aliases (app_id, id, previous_id, made_at) VALUES ($1, 'a', 'd', now() - interval '801 days')`,
    [app_id],
  );
  const retention = new InstallRetention({ db: edge.db, retentionDays: 30, log: { warn: () => undefined } });
  await behind(800);
  expect([await retention.step(), await retention.stepAliases()]).toEqual([0, 0]);
  await behind(772);
  expect([await retention.step(), await retention.stepAliases()]).toEqual([0, 0]);
  await behind(710);
  expect([await retention.step(), await retention.stepAliases()]).toEqual([1, 1]);
});

test('the trim of the audit log asks for the deletion time once, however many rows there are', async () => {
  await edge.db.execute(
    `INSERT INTO audit_log (at, organization_id, actor_id, actor_name, action, target_id, fields, address, request_id)
     SELECT now(), 'org', '', '', 'test', '', '{}', '', '' FROM generate_series(1, 2000)`,
  );
  const calls = await edge.db.transaction(async (queries) => {
    await queries.execute(`SET LOCAL track_functions = 'all'`);
    await queries.query('SELECT signpost_trim_audit_log(1000)');
    return await queries.query(
      `SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'signpost_deletion_time'`,
    );
  });
  expect(calls).toEqual([{ calls: 1 }]);
});
