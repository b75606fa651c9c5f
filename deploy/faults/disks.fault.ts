/** Fills disks for a while. They are small tmpfs disks, so this needs root. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { Ballast } from './ballast.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';
import { mountDisk, type StoreName, unmountDisk } from './store.ts';

const recoversWithinMs = 60_000;

describe.runIf(process.getuid?.() === 0)('a full disk', () => {
  let stage: Stage;
  let journals: string;
  beforeAll(async () => {
    stage = await Stage.start({
      disks: { nats: 64, clickhouse: 256, postgres: 256 },
      settings: { JOURNAL_SEGMENT_BYTES: '1048576' },
    });
    await stage.stack.interrupt();
    journals = join(stage.stack.dataDir, 'journal');
    mountDisk(journals, 8);
    await stage.stack.launch();
  });
  afterAll(async () => {
    await stage.stack.interrupt();
    unmountDisk(journals);
    await stage.stop();
  });

  const notRecorded = () => stage.metric('redirector-0', 'signpost_redirector_clicks_not_recorded_total');

  test('a full journal disk does not disturb redirects and recovers without a restart; every recorded click is counted', async () => {
    const options = { name: 'full journal disk', seed, clicks: 5_000, notRecorded };
    const report = await runFault(stage, options, async ({ clicks, random, hit }) => {
      for (let rounds = 0; rounds < times(5); rounds++) {
        await sleep(systemTime, random.between(500, 1_500));
        const ballast = new Ballast(journals);
        const [before, redirectsBefore] = [await notRecorded(), clicks.answers.get(302) ?? 0];
        await until('clicks without a record', async () => {
          ballast.fill();
          return (await notRecorded()) > before + 200;
        });
        expect(clicks.answers.get(302) ?? 0).toBeGreaterThan(redirectsBefore + 200);
        hit('journal disk full');
        ballast.remove();
        const removedMs = Date.now();
        await until('records again', async () => {
          const was = await notRecorded();
          await sleep(systemTime, 500);
          return (await notRecorded()) === was;
        });
        console.log(`  records again after ${Date.now() - removedMs} ms`);
      }
      expect([...clicks.answers.keys()]).toEqual([302]);
    });
    console.log(`  answered without a record, and counted as such: ${await notRecorded()}`);
    expect(report).toMatchObject(nothingWrong);
  });

  test.each(['nats', 'clickhouse', 'postgres'] as const)('a full disk under %s loses nothing', async (name) => {
    const store = stage.stores[name];
    const options = { name: `full disk of ${name}`, seed, clicks: 5_000, settleMs: recoversWithinMs, notRecorded };
    const report = await runFault(stage, options, async ({ random, hit }) => {
      for (let rounds = 0; rounds < times(4); rounds++) {
        await sleep(systemTime, random.between(500, 1_500));
        const ballast = new Ballast(store.dataDir);
        const fullUntil = Date.now() + random.between(2_000, 6_000);
        while (Date.now() < fullUntil) {
          ballast.fill();
          await sleep(systemTime, 20);
        }
        hit(`${name} disk full`);
        ballast.remove();
        await untilWritable(stage, name, () => hit(`${name} exited, started again`));
      }
    });
    expect(report).toMatchObject(nothingWrong);
  });
});

/** Waits until records reach ClickHouse again, and restarts the store each time it exits. */
async function untilWritable(stage: Stage, name: StoreName, onRevived: () => void): Promise<void> {
  const rows = () => stage.stored.rowsOf('clicks').catch(() => -1);
  let before = -1;
  const startedMs = Date.now();
  await until(`records in ClickHouse after a full disk of ${name}`, async () => {
    if (await stage.stores[name].revive()) onRevived();
    const now = await rows();
    if (before < 0) before = now;
    return before >= 0 && now > before + 500;
  });
  console.log(`  records arrive again ${Date.now() - startedMs} ms after ${name} had room`);
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + recoversWithinMs;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`timed out waiting for: ${what}`);
    await sleep(systemTime, 50);
  }
}
