import { afterAll, beforeAll, expect, test } from 'vitest';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestDatabase } from '#testing/servers.ts';
import { ExpiredClaims } from './expired-claims.ts';

let database: TestDatabase;
let db: Postgres;
beforeAll(async () => {
  database = await postgresForTest();
  db = new Postgres({ url: database.url, name: 'test' });
});
afterAll(async () => {
  await db.close();
  await database.stop();
});

test('expired claims are deleted oldest first, a bounded number at a time, and other claims stay', async () => {
  await db.execute(
    `INSERT INTO claims SELECT 'clk_' || n, 'app_1', 'd' || n, 'mat_' || n, '{}', now() - make_interval(hours => n)
       FROM generate_series(-5, 25) AS n WHERE n <> 0`,
  );
  const claims = new ExpiredClaims(db);
  const left = async () => (await db.query('SELECT FROM claims')).length;
  expect([await claims.delete(5, 2), await left()]).toEqual([10, 20]);
  const oldest = await db.query<{ n: number }>(`SELECT max(substr(click_id, 5)::integer) AS n FROM claims`);
  expect(oldest).toEqual([{ n: 15 }]);
  expect([await claims.delete(5, 10), await left()]).toEqual([15, 5]);
});
