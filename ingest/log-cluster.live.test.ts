/** @module-tag slow */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PipelineHarness } from './testing/pipeline-harness.ts';

const patience = { timeout: 60_000, interval: 250 };
let way: PipelineHarness;
beforeAll(async () => {
  way = await PipelineHarness.start({ hasCluster: true });
});
afterAll(() => way.stop());

test('with a log on three servers, nothing is lost or counted twice after its leader dies, and then a follower', {
  timeout: 120_000,
}, async () => {
  const ingest = await way.ingestHere();
  ingest.start();
  try {
    await way.keep(300);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
    const leader = await way.cluster.leader();
    await way.cluster.kill(leader);
    await way.keep(300);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
    await way.cluster.revive(leader);
    const follower = (leader + 1) % 3;
    await way.cluster.kill(follower);
    await way.keep(300);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  } finally {
    await ingest.stop();
  }
});
