/** Sends far more data through the log than it can hold: at full size, 2 GB of clicks through 64 MiB. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';

const megabytes = times(2_000);
/** The log holds a thirtieth of the data, but at least the smallest possible size. */
const logBytesMax = Math.max(16_777_216, Math.round((67_108_864 * megabytes) / 2_000));
const asOfAgeMax = 2;
const sampleMs = 250;

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ settings: { LOG_BYTES_MAX: String(logBytesMax) } });
});
afterAll(() => stage.stop());

test("if many times the log's capacity passes through it, everything is counted once and the statistics stay current", async () => {
  const largest = { log: 0, asOfAge: 0 };
  const options = { name: 'log full', seed, clicks: 0, clicksPerSecond: 5_000, eventSenders: 0 };
  const report = await runFault(stage, options, async ({ hit }) => {
    const published = () => stage.metric('publisher', 'signpost_publisher_bytes_total');
    const bytesMin = (await published()) + megabytes * 1e6;
    for (let bytes = 0; bytes < bytesMin; bytes = await published()) {
      largest.log = Math.max(largest.log, await stage.metric('ingest', 'signpost_ingest_log_bytes{'));
      largest.asOfAge = Math.max(
        largest.asOfAge,
        await stage.metric('publisher', 'signpost_publisher_uncommitted_seconds'),
      );
      await sleep(systemTime, sampleMs);
    }
    hit(`${megabytes} MB published`);
  });
  const purged = await stage.metric('ingest', 'signpost_ingest_log_total', 'what="purged_messages"');
  console.log({ logBytesMax, largest, purged });
  expect(report).toMatchObject(nothingWrong);
  expect(purged).toBeGreaterThan(0);
  expect(largest.log).toBeLessThanOrEqual(logBytesMax);
  expect(largest.asOfAge).toBeLessThanOrEqual(asOfAgeMax);
});
