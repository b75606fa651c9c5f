import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { Postgres, type Queries } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';

let postgres: TestPostgres;
let db: Postgres;
beforeAll(async () => {
  postgres = await postgresForTest();
  db = new Postgres({ url: postgres.url, name: 'test' });
});
afterAll(async () => {
  await db.close();
  await postgres.stop();
});

const report = (queries: Pick<Queries, 'query'>, holder: string) =>
  queries.query(`SELECT * FROM signpost_report_clicks($1, $1, 'redirector-0', false, '{}', '{}', '{}', '{}')`, [
    holder,
  ]);

test('two redirectors that return at the same moment after an outage both keep their shares', async () => {
  await db.execute(`INSERT INTO organizations (id, name) VALUES ('org_1', 'One')`);
  for (const holder of ['one', 'two']) {
    await report(db, holder);
    await db.execute(
      `INSERT INTO click_shares (organization_id, app_id, link_id, holder, granted, returned, used) VALUES ('org_1', 'app_1', 'lnk_1', $1, 20, 0, 3)`,
      [holder],
    );
  }
  await db.execute(`UPDATE click_holders SET reported_at = now() - interval '1 hour'`);
  let second: Promise<unknown> | undefined;
  await db.transaction(async (queries) => {
    expect(await report(queries, 'one')).toMatchObject([{ kind: 'given_up', name: 'two/redirector-0', granted: 17 }]);
    second = report(db, 'two');
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await vi.waitUntil(async () => (await db.query(waiting)).length > 0, { timeout: 10_000 });
  });
  await second;
  expect(
    await db.query(
      `SELECT h.holder, h.gone_at, s.is_given_up FROM click_holders h JOIN click_shares s USING (holder) ORDER BY 1`,
    ),
  ).toEqual([
    { holder: 'one', gone_at: null, is_given_up: false },
    { holder: 'two', gone_at: null, is_given_up: false },
  ]);
});
