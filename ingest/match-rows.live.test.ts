import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { audit } from '#clickhouse/queries/audit.ts';
import { DAY_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { matchJson } from '#common/log/match-record.ts';
import { plainMatch } from '#common/testing/match-record.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import type { FailpointName } from './failpoints.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';

const organization_id = newId('org', 1);
let way: PipelineHarness;
beforeAll(async () => {
  way = await PipelineHarness.start();
});
afterEach(() => way.stopIngests());
afterAll(() => way.stop());

function append(lines: readonly string[]): Promise<unknown> {
  const lane = way.journal.lane('match', 0);
  return Promise.all(
    lines.map(
      (json) =>
        new Promise<void>((committed, fail) => {
          way.journal.append(lane, json, { committed, refused: () => fail(new Error('refused')) });
        }),
    ),
  );
}

async function counted(app_id: string): Promise<number[]> {
  const [row] = await way.client.query<{ n: number; ids: number }>(
    'SELECT count() AS n, uniqExact(match_id) AS ids FROM matches WHERE app_id = {app_id:String}',
    { app_id },
  );
  return [Number(row?.n), Number(row?.ids)];
}

const eventually = (read: () => Promise<unknown>) => expect.poll(read, { timeout: 60_000, interval: 200 });

testCostlyCases<FailpointName>(
  ['part_inserted', 'formed', 'after'],
  0,
  'matches are stored once each when ingest dies at %s, like the clicks of the same batch',
  async (failpoint) => {
    const app_id = newId('app', Date.now());
    const dying = way.ingest(`${failpoint}:2`);
    const isDead = () => dying.process.exitCode !== null || dying.process.signalCode !== null;
    let sent = 0;
    const some = async () => {
      const lines = Array.from({ length: 5 }, () => matchJson(plainMatch({ organization_id, app_id })));
      await Promise.all([append(lines), way.keep(5)]);
      sent += lines.length;
    };
    const someMore = async () => {
      await some();
      return isDead();
    };
    await expect.poll(someMore, { timeout: 60_000, interval: 200 }).toBe(true);
    await some();
    const next = way.ingest();
    await eventually(() => counted(app_id)).toEqual([sent, sent]);
    await eventually(() => way.figures()).toEqual(way.wanted);
    await next.stop();
  },
  90_000,
);

test('a match is stored with all its columns, its address truncated, and its detail unchanged', async () => {
  const app_id = newId('app', Date.now());
  const ingest = way.ingest();
  const match = plainMatch(
    { organization_id, app_id },
    {
      ...{ device_id: 'd-ü', install_id: 'i-1', outcome: 'matched', match_type: 'click_id', confidence: 1 },
      ...{ click_id: newId('clk', 5), link_id: newId('lnk', 5), browser: 'Instagram', shadow_outcome: 'ambiguous' },
    },
  );
  await append(['{"v":1}', matchJson(match)]);
  const of = 'FROM matches WHERE app_id = {app_id:String}';
  await eventually(() => counted(app_id)).toEqual([1, 1]);
  const [row] = await way.client.query<Record<string, unknown>>(
    `SELECT *, toUnixTimestamp64Milli(time) AS time_ms ${of}`,
    { app_id },
  );
  const { time, privacy_mode: _, ...texts } = match;
  expect(row).toMatchObject({ ...texts, ip: '203.0.113.0', time_ms: time });
  const report = await audit(way.client, { from_ms: time - DAY_MS, to_ms: time + DAY_MS });
  expect(report).toMatchObject({ lost: 0, duplicated: 0, rollup_difference: 0, faults: [] });
  await way.client.command(`INSERT INTO matches SELECT * ${of}`, { app_id }, { insert_deduplicate: 0 });
  const faults = (await audit(way.client, { from_ms: time, to_ms: time + 1 })).faults;
  expect(faults).toMatchObject([{ fault: 'record_stands_twice', table: 'matches', app_id, rows: 1 }]);
  await ingest.stop();
}, 120_000);
