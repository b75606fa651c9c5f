import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DAY_MS } from '#common/durations.ts';
import { Journal } from '#common/journal/journal.ts';
import { nodeSystem } from '#common/journal/system.ts';
import { PipelineHarness, testClick } from './testing/pipeline-harness.ts';

let way: PipelineHarness;

beforeAll(async () => {
  way = await PipelineHarness.start();
});
afterAll(() => way.stop());

test.each([
  ['1970', DAY_MS],
  ['2037', Date.UTC(2037, 0, 1)],
])(
  'records of an edge with a clock at %s are stored with the time of the log, and its journal drains',
  async (slot, edgeNow) => {
    const root = join(way.folder, 'journal');
    const system = { ...nodeSystem, time: { ...nodeSystem.time, now: () => edgeNow } };
    const options = { root, slot, segmentBytes: 100_000, bytesMax: 1e9, sync: 'after_answer' } as const;
    const before = await way.figures();
    const startedMs = Date.now();
    const journal = await Journal.open(options, system);
    for (let n = 0; n < 20; n++) {
      await new Promise<void>((done, fail) => {
        const waiter = { committed: done, refused: () => fail(new Error('refused')) };
        journal.append(journal.lane('click', 0), testClick(edgeNow), waiter);
      });
    }
    await journal.close();
    const ingest = await way.ingestHere();
    ingest.start();
    try {
      await expect.poll(async () => (await way.figures()).rows, { timeout: 20_000 }).toBe(before.rows + 20);
      // Rows become visible shortly before their rollups.
      await expect
        .poll(() => way.figures(), { timeout: 20_000 })
        .toMatchObject({ dead_letters: 0, rollup_difference: 0 });
      const [times] = await way.client.query<{ earliest: number; latest: number }>(
        'SELECT min(toUnixTimestamp64Milli(time)) AS earliest, max(toUnixTimestamp64Milli(time)) AS latest FROM clicks',
      );
      expect(Number(times?.latest)).toBeLessThanOrEqual(Date.now());
      if (before.rows === 0) expect(Number(times?.earliest)).toBeGreaterThanOrEqual(startedMs - 60_000);
      expect(ingest.owners[0]?.reader?.counters.wrong_clocks).toBeGreaterThan(0);
      const producers = () => readdirSync(join(root, slot)).filter((name) => !name.startsWith('.'));
      await expect.poll(producers, { timeout: 20_000 }).toEqual([]);
    } finally {
      await ingest.stop();
    }
  },
);
