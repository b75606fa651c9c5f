/** Tests what a damaged journal of a running edge costs, from the journal to the audit, with real servers. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { audit } from '#clickhouse/queries/audit.ts';
import type { LostFrames } from '#clickhouse/queries/audit-frames.ts';
import { DAY_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';

const patience = { timeout: 120_000, interval: 200 };
let way: PipelineHarness;
let db: Postgres;
beforeEach(async () => {
  way = await PipelineHarness.start();
  db = new Postgres({ url: way.postgres.url, name: 'test' });
});
afterEach(async () => {
  await way.stopIngests();
  await db.close();
  await way.stop();
});

const lostFrames = () =>
  db.query<LostFrames>(
    'SELECT partition AS log_partition, kind, producer_id, frame_from, frame_to, records, (extract(epoch FROM noted_at) * 1000)::bigint AS noted_at FROM ingest.lost_frames',
  );

test('40 overwritten bytes in the journal of a running edge cost one frame, which the audit counts, and no later record', {
  timeout: 240_000,
}, async () => {
  await way.nats.kill('SIGKILL');
  await way.keep(50);
  const folder = join(way.folder, 'journal', 'edge-0', way.journal.producerId);
  const [name] = readdirSync(folder);
  const path = join(folder, name ?? '');
  const bytes = readFileSync(path);
  // In the payload of a frame in the middle, whose header says that it has five records.
  const at = bytes.indexOf('SPF1', Math.floor(bytes.length / 2)) + 200;
  writeFileSync(path, bytes.fill(0xff, at, at + 40), { flag: 'r+' });
  await way.nats.restart();
  way.ingest();
  // Enough for the next file, so that the damaged one is not written to any more.
  await way.keep(300);
  const stored = way.kept - 5;
  await expect
    .poll(() => way.figures(), patience)
    .toMatchObject({ rows: stored, distinct: stored, rollup_difference: 0 });
  await expect.poll(lostFrames, patience).toMatchObject([{ records: 5 }]);
  const [lost] = await lostFrames();
  expect(lost?.frame_to).toBe(lost?.frame_from);
  // The statistics are complete up to now, apart from what is counted.
  await way.keep(5);
  const until = Date.now();
  await expect.poll(() => way.publisher.committedTo, patience).toBeGreaterThan(until);
  expect(await lostFrames()).toHaveLength(1);
  const range = { from_ms: until - DAY_MS, to_ms: until + DAY_MS };
  const report = await audit(way.client, range, undefined, { lost: await lostFrames() });
  expect(report).toMatchObject({ lost: 5, duplicated: 0, rollup_difference: 0 });
  expect(report.faults).toMatchObject([{ fault: 'frames_lost', table: 'clicks', frame_no: lost?.frame_from, rows: 5 }]);
  expect(way.damage).toEqual([expect.stringContaining(path)]);
  // Once an operator removes the file, nothing is damaged any more.
  expect(way.publisher.damaged).toHaveLength(1);
  rmSync(path);
  await expect.poll(() => way.publisher.damaged, patience).toEqual([]);
  await way.keep(5);
  await expect.poll(() => way.figures(), patience).toMatchObject({ rows: stored + 10, distinct: stored + 10 });
  expect(await lostFrames()).toHaveLength(1);
});
