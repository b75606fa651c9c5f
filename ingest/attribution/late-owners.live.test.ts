import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { audit } from '#clickhouse/queries/audit.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { LateLearner, type LateLearnerOptions } from '#ingest/late-learner.ts';
import type { RawStore } from '#ingest/raw-store.ts';
import { SinkStage, type TestOwner } from '#ingest/testing/sink-stage.ts';

const organization_id = newId('org', 1);
const link_id = newId('lnk', 1);
let app_id = '';
let place: SinkStage;
const owners: TestOwner[] = [];

beforeAll(async () => {
  place = await SinkStage.start();
});
afterEach(() => {
  for (const owner of owners.splice(0)) owner.die();
});
afterAll(() => place.stop());

interface Batch {
  readonly partition: number;
  readonly no: number;
}

async function decided({ partition, no }: Batch): Promise<void> {
  await place.postgres.execute(
    `INSERT INTO ingest.last_batch VALUES ($1, $2)
     ON CONFLICT (partition) DO UPDATE SET last_batch_no = greatest(last_batch.last_batch_no, $2)`,
    [partition, no],
  );
}

/** Stores `count` events of a device without an install: the first `agoMs` ago, the others a second apart. */
async function storeEvents(batch: Batch, device_id: string, count = 1, agoMs = HOUR_MS): Promise<void> {
  await decided(batch);
  await place.clickhouse.command(
    `INSERT INTO events (organization_id, app_id, event_id, device_id, waiting_keys, time, received_at, revenue_amount, revenue_currency,
                         is_conversion, log_partition, batch_no, producer_id, frame_no, idx)
     SELECT {o:String}, {a:String}, concat({d:String}, toString(number)), {d:String}, [concat('d:', {d:String})],
            fromUnixTimestamp64Milli({at:Int64}, 'UTC') + toIntervalSecond(number), now64(3), 2.5, 'EUR', true, {p:UInt16}, {n:UInt64},
            concat({a:String}, toString({n:UInt64})), number, 0 FROM numbers({count:UInt64})`,
    {
      ...{ o: organization_id, a: app_id, d: device_id, at: Date.now() - agoMs },
      ...{ p: batch.partition, n: batch.no, count },
    },
    { async_insert: 0 },
  );
}

async function storeInstall(batch: Batch, device_id: string, trigger = 'install'): Promise<void> {
  await place.clickhouse.command(
    `INSERT INTO installs (organization_id, app_id, install_id, device_id, link_id, campaign, platform, trigger, time, log_partition, batch_no, producer_id, frame_no)
     SELECT {o:String}, {a:String}, {i:String}, {d:String}, {l:String}, 'sale', 'ios', {t:String}, now64(3), {p:UInt16}, {n:UInt64}, {i:String}, 1`,
    {
      ...{ o: organization_id, a: app_id, i: newId('ins', Date.now()), d: device_id, l: link_id, t: trigger },
      ...{ p: batch.partition, n: batch.no },
    },
    { async_insert: 0 },
  );
  await decided(batch);
}

async function own(partition: number, store?: RawStore): Promise<TestOwner> {
  const owner = await place.own(partition, store);
  owners.push(owner);
  return owner;
}

async function learn({ sink, late }: TestOwner): Promise<void> {
  const fail = () => undefined;
  const loop = { newestBatch: Promise.resolve(), inTurn: (work: () => Promise<void>) => work(), fail };
  const learner = new LateLearner({ late, sink, loop });
  while (await learner.look());
}

/** The same store with another `insert`. */
function storeWith(insert: RawStore['insert']): RawStore {
  return new Proxy<RawStore>(place.store, {
    get: (store, name) => {
      if (name === 'insert') return insert;
      const value = store[name as keyof RawStore];
      return typeof value === 'function' ? (value as () => unknown).bind(store) : value;
    },
  });
}

async function linked(): Promise<object | undefined> {
  const of = (link: string, from: string, rows: string) =>
    `(SELECT toInt64(sum(${rows})) FROM ${from} WHERE app_id = {a:String} AND link_id = '${link}')`;
  const [row] = await place.clickhouse.query<object>(
    `SELECT ${of(link_id, 'events', 'sign')} AS raw, ${of(link_id, 'events_by_link', 'rows')} AS rolled, ${of('', 'events', 'sign')} AS others`,
    { a: app_id },
  );
  const { duplicated, rollup_difference } = await audit(place.clickhouse, {
    from_ms: Date.now() - 2 * HOUR_MS,
    to_ms: Date.now(),
  });
  return { ...row, duplicated, rollup_difference };
}
const all = (n: number, others = 0) => ({ raw: n, rolled: n, others, duplicated: 0, rollup_difference: 0 });

/** Partitions that no other test uses. */
let next = 0;
const fresh = () => {
  app_id = newId('app', Date.now());
  next += 3;
  return [next, next + 1, next + 2] as const;
};

test('an install of a new partition is found, however low its batch numbers are', async () => {
  const [own0, other, late] = fresh();
  await storeEvents({ partition: own0, no: 10 }, 'a');
  await storeEvents({ partition: own0, no: 11 }, 'b');
  const owner = await own(own0);
  await storeInstall({ partition: other, no: 1_000_000 }, 'a');
  await learn(owner);
  expect(await linked()).toEqual(all(1, 1));
  await storeInstall({ partition: late, no: 500_000 }, 'b');
  await learn(owner);
  expect(await linked()).toEqual(all(2));
});

test('opening the app through a link is not an install: events do not get its link', async () => {
  const [own0, other] = fresh();
  await storeEvents({ partition: own0, no: 10 }, 'a');
  const owner = await own(own0);
  await storeInstall({ partition: other, no: 20 }, 'a', 'deep_link');
  await learn(owner);
  expect(await linked()).toEqual(all(0, 1));
});

test('an install is not examined before its batch is decided, so no other install of its partition is skipped', async () => {
  const [own0, other] = fresh();
  await storeEvents({ partition: own0, no: 10 }, 'a');
  const owner = await own(own0);
  await place.postgres.execute(
    `INSERT INTO ingest.batch (partition, batch_no, epoch, frames, parts, stream_time) VALUES ($1, 20, 1, '[]', '[]', 0)`,
    [other],
  );
  await storeInstall({ partition: other, no: 20 }, 'a');
  await learn(owner);
  expect(await linked()).toEqual(all(0, 1));
  await place.postgres.execute('DELETE FROM ingest.batch WHERE partition = $1', [other]);
  await learn(owner);
  expect(await linked()).toEqual(all(1));
});

test('a late attribution by a dead owner is refused once another owner has stored it', { tags: ['slow'] }, async () => {
  const [own0, other] = fresh();
  await storeEvents({ partition: own0, no: 10 }, 'a', 5);
  await storeInstall({ partition: other, no: 20 }, 'a');
  await place.administer('DELETE FROM ingest.late_cursor WHERE partition = $1', [own0]);
  let letGo: () => void = () => undefined;
  const held = new Promise<void>((done) => {
    letGo = done;
  });
  const outcomes: string[] = [];
  const store = storeWith(async (...what) => {
    await held;
    const outcome = await place.store.insert(...what);
    outcomes.push(outcome.kind);
    return outcome;
  });
  const first = await own(own0, store);
  const dead = learn(first).catch((error: Error) => error.name);
  await expect.poll(async () => (await place.checkpoints.batches(own0)).length, { timeout: 20_000 }).toBe(1);
  first.die();
  await learn(await own(own0));
  expect(await linked()).toEqual(all(5));
  letGo();
  expect(await dead).toBe('LeaseLost');
  expect(outcomes).toEqual(['fenced']);
  expect(await linked()).toEqual(all(5));
});

test('a late attribution that reached only the raw table before its owner died is completed and not repeated', {
  tags: ['slow'],
}, async () => {
  const [own0, other] = fresh();
  await storeEvents({ partition: own0, no: 10 }, 'a', 5);
  await storeInstall({ partition: other, no: 20 }, 'a');
  let isStored = false;
  const store = storeWith(async (...what) => {
    await place.store.insert(...what);
    isStored = true;
    return await new Promise(() => undefined);
  });
  const first = await own(own0, store);
  await place.withoutViews(['events_by_link_view', 'events_by_dimension_view'], async () => {
    void learn(first);
    await expect.poll(() => isStored, { timeout: 20_000 }).toBe(true);
  });
  first.die();
  await learn(await own(own0));
  expect(await linked()).toEqual(all(5));
  const rows = await place.clickhouse.query('SELECT count() AS n FROM events WHERE app_id = {a:String}', { a: app_id });
  expect(rows).toEqual([{ n: 15 }]);
});

test('events are looked up only after the batch that was being formed when their install was found', async () => {
  const [own0, other] = fresh();
  await storeEvents({ partition: own0, no: 10 }, 'a');
  await storeInstall({ partition: other, no: 20 }, 'a');
  const { sink, late } = await own(own0);
  const steps: string[] = [];
  let found = () => {};
  const isFound = new Promise<void>((done) => {
    found = done;
  });
  const newestBatch = isFound.then(async () => {
    await place.postgres.query('SELECT');
    steps.push('batch stored');
  });
  const loop = {
    newestBatch,
    inTurn: (work: () => Promise<void>) => {
      steps.push('events looked up');
      return work();
    },
    fail: () => undefined,
  };
  const watched: LateLearnerOptions['late'] = {
    find: (partition) => late.find(partition).finally(found),
    look: (partition, installs) => late.look(partition, installs),
    partsOf: (looked, batch) => late.partsOf(looked, batch),
    passed: (partition, installs) => late.passed(partition, installs),
  };
  await new LateLearner({ late: watched, sink, loop }).look();
  await newestBatch;
  expect(steps).toEqual(['batch stored', 'events looked up']);
  expect(await linked()).toEqual(all(1));
});

test('if the cursor of installs is lost, installs are examined from the first waiting event on', async () => {
  const [own0, other] = fresh();
  await storeEvents({ partition: own0, no: 10 }, 'a', 2);
  await storeInstall({ partition: other, no: 20 }, 'a');
  (await own(own0)).die();
  await place.administer('DELETE FROM ingest.late_cursor WHERE partition = $1', [own0]);
  await learn(await own(own0));
  expect(await linked()).toEqual(all(2));
});

test('one install attributes thousands of events, even after as many that are too old for it', {
  tags: ['slow'],
  timeout: 60_000,
}, async () => {
  const [own0, other] = fresh();
  const week = 168 * HOUR_MS;
  // The first day of the window is read completely.
  await storeEvents({ partition: own0, no: 10 }, 'a', 1_200, week + 1_300_000);
  await storeEvents({ partition: own0, no: 11 }, 'a', 2_300);
  await storeInstall({ partition: other, no: 20 }, 'a');
  await learn(await own(own0));
  expect(await linked()).toEqual(all(2_300, 1_200));
});
