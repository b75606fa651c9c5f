/**
 * Several machines, with the log on three servers and two of every process: servers and processes are killed, the
 * number of partitions is changed, and a machine is removed.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ClusterStage, processNames } from './cluster-stage.ts';
import { runFault, type Scene } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';

const patience = { timeout: 90_000, interval: 250 };
let stage: ClusterStage;
beforeAll(async () => {
  stage = await ClusterStage.start();
});
afterAll(() => stage.stop());

/** Waits until the load has received this many more redirects. */
async function redirected({ clicks }: Scene, more: number): Promise<void> {
  const wanted = (clicks.answers.get(302) ?? 0) + more;
  await vi.waitUntil(() => (clicks.answers.get(302) ?? 0) >= wanted, patience);
}

const load = { seed, clicks: 3_000, clicksPerSecond: 400, settleMs: 120_000 };

test('a leader and a follower of the log are killed, then two servers at once: nothing is lost or counted twice', async () => {
  const report = await runFault(stage, { ...load, name: 'log cluster' }, async (scene) => {
    for (let rounds = 0; rounds < times(3); rounds++) {
      const leader = await stage.nats.leader();
      const [one, other] = [(leader + 1) % 3, (leader + 2) % 3];
      for (const node of [leader, one]) {
        await redirected(scene, 400);
        await stage.nats.kill(node);
        scene.hit(node === leader ? 'leader killed' : 'follower killed');
        await redirected(scene, 400);
        await stage.nats.revive(node);
        await stage.nats.leader();
      }
      await Promise.all([stage.nats.kill(one), stage.nats.kill(other)]);
      scene.hit('quorum lost');
      await redirected(scene, 1_000);
      await Promise.all([stage.nats.revive(one), stage.nats.revive(other)]);
    }
  });
  expect(report).toMatchObject(nothingWrong);
  expect([report.cut, report.clicks.refused]).toEqual([0, 0]);
});

test('LOG_PARTITIONS is changed from 1 to 4 to 2 under load: no request fails, and nothing is lost or counted twice', async () => {
  const spreadSince = (time: string) =>
    stage.stored.ask(`SELECT arraySort(groupUniqArray(log_partition)) FROM clicks WHERE time > '${time}'`);
  const report = await runFault(stage, { ...load, name: 'partitions' }, async (scene) => {
    for (const partitions of [4, 2]) {
      stage.partitions = partitions;
      for (const name of processNames.filter((one) => !/^(publisher|api)/.test(one))) {
        // An ingest may also die while the numbers differ.
        if (name === 'ingest-1') await stage.kill(name);
        await stage.restart(name);
        scene.hit(`${name.slice(0, -2)} restarted`);
        await redirected(scene, 200);
      }
      // Long enough for each partition to have its turn.
      const newest = (await stage.stored.ask('SELECT max(time) FROM clicks')).trim();
      await redirected(scene, 2_500);
      const wanted = partitions === 4 ? '[0,1,2,3]' : '[0,1]';
      await expect.poll(() => spreadSince(newest), patience).toBe(wanted);
    }
  });
  expect(report).toMatchObject(nothingWrong);
  expect([...report.answers.keys()].filter((status) => ![202, 302, 0].includes(status))).toEqual([]);
  expect(report.clicks.unknown).toBe(0);
});

test('every process is killed under load, one after the other: nothing is lost or counted twice', async () => {
  const report = await runFault(stage, { ...load, name: 'each of two killed' }, async (scene) => {
    for (let rounds = 0; rounds < times(3); rounds++) {
      for (const name of processNames) {
        await redirected(scene, 100);
        await stage.kill(name);
        scene.hit(`${name.slice(0, -2)} killed`);
        await redirected(scene, 100);
        await stage.start(name);
      }
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('a machine is removed under load: its records are stored, and figures no longer wait for it', async () => {
  const report = await runFault(stage, { ...load, name: 'machine removed' }, async (scene) => {
    await redirected(scene, 400);
    for (const name of ['redirector-1', 'gateway-1', 'api-1'] as const) await stage.end(name);
    // A process that stops properly leaves nothing that would have to be removed.
    await stage.kill('ingest-1');
    expect(await stage.admin('retire-machine', 'edge-1')).toMatch(/edge-1 reported \d+ seconds ago/);
    // Its publisher still publishes what its edges wrote.
    const uncommitted = () => stage.metric('publisher-1', 'signpost_publisher_uncommitted_seconds');
    await expect.poll(uncommitted, patience).toBeLessThan(2);
    await stage.end('publisher-1');
    const endedMs = Date.now();
    await redirected(scene, 400);
    for (const machine of ['edge-1', 'center-1']) {
      const answer = () => stage.admin('retire-machine', machine);
      await expect.poll(answer, { ...patience, interval: 3_000 }).toMatch(/^(?!.*(ago|runs)).*retired/is);
      scene.hit('machine retired');
    }
    await expect.poll(() => stage.asOf(), patience).toBeGreaterThan(endedMs + 10_000);
  });
  expect(report).toMatchObject(nothingWrong);
});
