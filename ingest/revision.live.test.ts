import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { Nats } from '#common/stores/nats.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { systemTime, type Time } from '#common/time.ts';
import type { StoreTimes } from './frame-clock.ts';
import { FENCE_REACH } from './raw-store.ts';
import { revise } from './revision.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';
import { SinkStage, type TestOwner } from './testing/sink-stage.ts';

let way: PipelineHarness;
let place: SinkStage | undefined;
let nats: Nats;
beforeEach(async () => {
  way = await PipelineHarness.start();
  nats = await Nats.connect({ url: way.nats.url, name: 'test-replay', installation: defaultInstallation });
});
afterEach(async () => {
  await nats.close();
  await place?.disconnect();
  place = undefined;
  await way.stop();
});

/** Replays everything in the log, in batches of a few rows. */
async function replay(time: Time, storeTimes?: StoreTimes): Promise<TestOwner> {
  await place?.disconnect();
  place = new SinkStage([way.postgres, { url: way.clickhouseUrl, stop: async () => undefined }], time, storeTimes);
  const owner = await place.own();
  const marks = vi.spyOn(place.checkpoints, 'marks');
  marks.mockRejectedValueOnce(new PostgresUnavailable(new Error('away for a moment')));
  const revision = { replay_from: Date.now() - HOUR_MS, days_from: null, days_to: null };
  const limits = { batchRows: 10, batchBytes: 8_000_000, flushIntervalMs: 1 };
  await revise({ revision, sink: owner.sink, limits, nats, signal: new AbortController().signal });
  return owner;
}

/** Stores clicks, then deletes them from ClickHouse, while the log still has them. */
async function loseClicks(): Promise<void> {
  const ingest = way.ingest();
  await way.keep(50);
  await expect.poll(() => way.figures(), { timeout: 45_000 }).toEqual(way.wanted);
  await ingest.stop();
  for (const table of ['clicks', 'clicks_by_link', 'clicks_by_dimension']) {
    await way.client.command(`TRUNCATE TABLE ${table}`);
  }
}

test('a replay waits for Postgres if it is unreachable when the replay begins', { tags: ['slow'] }, async () => {
  await loseClicks();
  const { log } = await replay(systemTime);
  expect(await way.figures()).toEqual(way.wanted);
  expect(log.join('\n')).toContain('away for a moment');
});

test.each([
  ['behind', -HOUR_MS],
  ['ahead', HOUR_MS],
])('a replay reads the whole log even if its clock is an hour %s', { tags: ['slow'] }, async (_, offMs) => {
  await loseClicks();
  await replay({ ...systemTime, now: () => Date.now() + offMs });
  expect(await way.figures()).toEqual(way.wanted);
});

test.each<[clock: string, ingestOff: number, storeOff: number]>([
  ['ingest is days behind', -3 * DAY_MS, 0],
  ['ingest is a year ahead', 365 * DAY_MS, 0],
  ['ClickHouse is days behind', 0, -3 * DAY_MS],
  ['ClickHouse is a year ahead', 0, 365 * DAY_MS],
])(
  'if the clock of %s, batches are numbered by the right time, so a replay finds their rows',
  async (_, off, storeOff) => {
    await way.keep(50);
    const time = { ...systemTime, now: () => Date.now() + off };
    const storeTimes = {
      get now() {
        return Date.now() + storeOff;
      },
      oldestOf: () => 0,
    };
    for (let times = 0; times < 2; times++) {
      await replay(time, storeTimes);
      const [figures] = await way.client.query<{ rows: number; last: number }>(
        'SELECT toUInt32(count()) AS rows, max(batch_no) AS last FROM clicks',
      );
      expect(figures?.rows).toBe(50);
      expect(Math.abs(Number(figures?.last) - Date.now())).toBeLessThan(MINUTE_MS + 2 * FENCE_REACH);
    }
  },
);
