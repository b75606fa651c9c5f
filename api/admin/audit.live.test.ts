import { Command } from 'commander';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import type { LostFrames } from '#clickhouse/queries/audit-frames.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { addAuditCommand } from './audit.ts';

let store: TestDatabase;
let client: ClickHouse;
const lost: LostFrames[] = [];

beforeAll(async () => {
  store = await clickhouseForTest();
  client = new ClickHouse({ url: store.url });
});
afterAll(async () => {
  await client.close();
  await store.stop();
});

async function run(...args: string[]): Promise<{ lines: string[]; isFaulty: boolean }> {
  const lines: string[] = [];
  let isFaulty = false;
  const program = new Command('admin').exitOverride().configureOutput({ writeErr: () => undefined });
  addAuditCommand(program, {
    clickhouse: () => client,
    postgres: () => ({ query: async () => [] }),
    lostSince: () => Promise.resolve(lost),
    nowMs: () => Date.parse('2026-04-10T12:00:00Z'),
    print: (line) => lines.push(line),
    onFaults: () => {
      isFaulty = true;
    },
  });
  await program.parseAsync(['node', 'admin', 'audit', ...args]);
  return { lines, isFaulty };
}

const unknown = 'unknown: lost rows other than between clicks, because no stored rows are in the ledger yet';

test('the audit reports its range, and fails when a rollup counts a record that does not exist', {
  tags: ['slow'],
}, async () => {
  await client.command(
    "INSERT INTO clicks (click_id, organization_id, app_id, link_id, time) VALUES ('c', 'org_1', 'app_1', 'lnk_1', '2026-04-09 10:00:00')",
  );
  expect(await run()).toEqual({
    lines: ['2026-04-03 to 2026-04-11: 8 days, 1 records', 'lost 0, duplicated 0, rollup difference 0', unknown],
    isFaulty: false,
  });
  await client.command(
    "INSERT INTO clicks_by_link (organization_id, app_id, link_id, bucket, rows) VALUES ('org_1', 'app_1', 'lnk_1', '2026-04-09 00:00:00', 2)",
  );
  const { lines, isFaulty } = await run('--from', '2026-04-09', '--to', '2026-04-09');
  expect(isFaulty).toBe(true);
  expect(lines).toEqual([
    '2026-04-09 to 2026-04-10: 1 days, 1 records',
    'lost 0, duplicated 0, rollup difference 1',
    unknown,
    '2026-04-09T00:00:00.000Z  app_1  clicks_by_link: rollup_differs (rows 2, cells 1)',
  ]);
  await expect(run('--from', 'yesterday')).rejects.toThrow('must be a date');
});
