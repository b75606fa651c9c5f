import { afterAll, beforeAll, expect, test } from 'vitest';
import { logFill } from '#common/log/log-stream.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';

const logBytesMax = 16_777_216;
let way: PipelineHarness;

beforeAll(async () => {
  way = await PipelineHarness.start({ logBytesMax });
});
afterAll(() => way.stop());

test('three times as many records as the log can hold pass through it, and each is counted once', {
  tags: ['slow'],
  timeout: 120_000,
}, async () => {
  const ingest = await way.ingestHere();
  ingest.start();
  const largest = { bytes: 0 };
  const watch = setInterval(() => {
    largest.bytes = Math.max(largest.bytes, ingest.logRoom.fill?.bytes ?? 0);
  }, 50);
  try {
    const bytesMin = 3 * logBytesMax;
    while (way.journal.counters.bytes < bytesMin) {
      await way.keep(5_000, 500);
      // A log that stays full is a separate failure; this test gives the log the time that it needs.
      await expect
        .poll(() => way.publisher.counters.acknowledged, { timeout: 60_000 })
        .toBeGreaterThan(way.journal.counters.frames - 50);
    }
    await expect.poll(async () => (await way.figures()).rows, { timeout: 60_000 }).toBe(way.kept);
    expect(await way.figures()).toEqual(way.wanted);
    expect(largest.bytes).toBeLessThanOrEqual(logBytesMax);
    expect(ingest.logRoom.counters.purged_messages).toBeGreaterThan(0);
    expect((await logFill(ingest.nats))?.bytes).toBeGreaterThan(logBytesMax / 2);
  } finally {
    clearInterval(watch);
    await ingest.stop();
  }
});
