/**
 * Kills ClickHouse a thousand times, each time in the middle of an insert, sometimes together with the owner of the
 * partition.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { DAY_MS } from '#common/durations.ts';
import { sleep, systemTime } from '#common/time.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { LeaseLost } from '#ingest/checkpoints.ts';
import type { RawStore } from '#ingest/raw-store.ts';
import { newSinkCounters } from '#ingest/sink-counters.ts';
import { SinkStage } from '#ingest/testing/sink-stage.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { seed, times } from './fault-sizes.ts';
import { Store } from './store.ts';

const monthMs = 32 * DAY_MS;
/** A kill comes within this many durations of an insert: at any moment of it, sometimes shortly after it. */
const afterInsert = 1.2;
/** Kills between two comparisons of all figures; nothing is inserted or killed during one. */
const comparedEvery = 100;
const insertsBeforeMax = 4;
const ownerDies = 0.2;
/** Retries come almost at once, since a thousand starts of ClickHouse take long enough. */
const retryMsMax = 20;
const impatient = {
  ...systemTime,
  after: (ms: number, work: () => void) => systemTime.after(Math.min(ms, retryMsMax), work),
};

const folder = mkdtempSync(join(tmpdir(), 'signpost-faults-kills-'));
const entry = existsSync(builtClickHouse()) ? builtClickHouse() : undefined;
const start = (port = 0) => startClickHouse({ dataDir: folder, port, ...(entry === undefined ? {} : { entry }) });

test('ClickHouse killed a thousand times in the middle of an insert loses nothing and counts nothing twice', async () => {
  const random = new SeededRandom(seed);
  const postgres = await Store.start('postgres');
  let server = await start();
  const url = `${server.url}/kills`;
  await migratePostgres({ url: postgres.directUrl });
  const client = new ClickHouse({ url });
  await migrateClickHouse(client, { retentionDays: 36_500 });
  await client.close();
  const nothing = async () => undefined;
  const stage = new SinkStage(
    [
      { url: postgres.directUrl, urlAs: () => postgres.directUrl, stop: nothing },
      { url, stop: nothing },
    ],
    impatient,
  );

  let [inserts, running, rows, isOver, isComparisonDue] = [0, 0, 0, false, false];
  let insertMs = 25;
  const counted = new Proxy<RawStore>(stage.store, {
    get: (store, name: keyof RawStore) => {
      if (name !== 'insert') return store[name].bind(store);
      return async (...given: Parameters<RawStore['insert']>) => {
        inserts++;
        running++;
        const begunMs = performance.now();
        const outcome = await store.insert(...given).finally(() => running--);
        if (outcome.kind === 'written') insertMs = 0.8 * insertMs + 0.2 * (performance.now() - begunMs);
        return outcome;
      };
    },
  });
  const sums = newSinkCounters();
  let owner = await stage.own(0, counted);
  const note = () => {
    for (const [what, count] of Object.entries(owner.sink.held.counters)) sums[what as keyof typeof sums] += count;
  };

  const compare = async () => {
    const figures = await stage.figures();
    expect(figures).toEqual({ rows, places: rows, rollup_difference: 0 });
    return figures;
  };
  /** Stores one frame after another. If the owner of the partition dies, the next owner stores the frame again. */
  const feed = async () => {
    while (!isOver) {
      if (isComparisonDue) await compare().then(() => (isComparisonDue = false));
      const now = Date.now();
      const frame = stage.frame(
        Array.from(
          { length: random.between(5, 200) },
          (_, n) => now - (n % 3 === 0 && random.next() < 0.5 ? monthMs : n),
        ),
      );
      rows += frame.header.records;
      for (let isStored = false; !isStored; ) {
        try {
          await owner.sink.store(await owner.sink.batches.form([frame]));
          isStored = true;
        } catch (error) {
          if (!(error instanceof LeaseLost)) throw error;
          note();
          owner = await stage.own(0, counted);
        }
      }
    }
  };
  const fed = feed();
  let midway = 0;
  const startedMs = Date.now();
  const kills = times(1_000);
  for (let killed = 0; killed < kills; killed++) {
    const from = inserts + random.between(0, insertsBeforeMax);
    while (inserts <= from || running === 0) await Promise.race([sleep(systemTime, 1), fed]);
    await sleep(systemTime, random.next() * afterInsert * insertMs);
    if (running > 0) midway++;
    if (random.next() < ownerDies) owner.die();
    server.kill('SIGKILL');
    await server.stop();
    server = await start(server.port);
    if (killed % comparedEvery === comparedEvery - 1) {
      isComparisonDue = true;
      while (isComparisonDue) await Promise.race([sleep(systemTime, 1), fed]);
      console.log(`${killed + 1} kills, ${midway} within an insert, ${rows} clicks: all figures agree`);
    }
  }
  isOver = true;
  await fed;
  note();
  const { in_doubt_stored, in_doubt_partial, in_doubt_discarded, filled_rollups, rollups_ahead, stored_before } = sums;
  const outcomes = {
    in_doubt_stored,
    in_doubt_partial,
    in_doubt_discarded,
    filled_rollups,
    rollups_ahead,
    stored_before,
  };
  const figures = await compare();
  const seconds = Math.round((Date.now() - startedMs) / 1_000);
  console.log(
    `seed ${seed}: ${kills} kills, ${midway} within an insert, in ${seconds} s; ${rows} clicks`,
    outcomes,
    figures,
  );
  expect(midway).toBeGreaterThan(0);
  await stage.stop();
  await server.stop();
  await postgres.stop();
  rmSync(folder, { recursive: true });
}, 7_200_000);
