import { expect, test } from 'vitest';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { systemTime, type Time } from '#common/time.ts';
import { type Lease, LeaseLost } from './checkpoints.ts';
import { HeldLease } from './held-lease.ts';

const lease: Lease = { partition: 0, owner: 'ingest-0', epoch: 2, lastBatchNo: 0 };
const seconds = 6;

/** A lease with a clock that the test controls, and a Postgres that renews while it is reachable. */
async function held() {
  const clock = { ms: 0 };
  const postgres = { isReachable: true, renewals: 0, decidedNo: 0 };
  const lost: number[] = [];
  // Timers never fire by themselves; a pause ends at once.
  const time: Time = {
    ...systemTime,
    elapsed: () => clock.ms,
    every: () => systemTime.after(0, () => undefined),
    after: (_ms, callback) => systemTime.after(0, callback),
  };
  const checkpoints = {
    acquire: async () => lease,
    renew: async (_lease: Lease, _seconds: number, decidedNo: number) => {
      if (!postgres.isReachable) throw new PostgresUnavailable(new Error('gone'));
      if (decidedNo > postgres.decidedNo) throw new LeaseLost(lease);
      postgres.renewals++;
    },
    release: async () => undefined,
  };
  const { partition, owner } = lease;
  const onLost = () => void lost.push(clock.ms);
  const one = await HeldLease.acquire({ checkpoints, partition, owner, seconds, time, onLost });
  if (one === undefined) throw new Error('the lease is held');
  return { one, clock, postgres, lost };
}

test('a lease that is always renewed in time stays held', async () => {
  const { one, clock, lost } = await held();
  for (let n = 1; n <= 10; n++) {
    clock.ms = n * (seconds * 1_000 - 1);
    await one.ensureHeld();
  }
  expect(one.isHeld).toBe(true);
  expect(lost).toEqual([]);
});

test('a lease that was not renewed in time is lost, even if Postgres would renew it', async () => {
  const { one, clock, postgres, lost } = await held();
  clock.ms = seconds * 1_000;
  await expect(one.ensureHeld()).rejects.toThrow(LeaseLost);
  expect(postgres.renewals).toBe(1);
  expect(one.isLost).toBe(true);
  expect(lost).toEqual([clock.ms]);
  await expect(one.ensureHeld()).rejects.toThrow('held too long without a renewal');
});

test('an owner that waits for Postgres past the end of its lease has lost it once Postgres is back', async () => {
  const { one, clock, postgres } = await held();
  postgres.isReachable = false;
  clock.ms = seconds * 900;
  const waiting = one.ensureHeld();
  clock.ms = seconds * 2_000;
  postgres.isReachable = true;
  await expect(waiting).rejects.toThrow(LeaseLost);
});

test('a lease is lost at its next renewal if Postgres no longer knows a batch that was decided', async () => {
  const { one, clock, postgres, lost } = await held();
  postgres.decidedNo = 7;
  one.noteDecided(7);
  clock.ms = seconds * 900;
  await one.ensureHeld();
  postgres.decidedNo = 6;
  clock.ms += seconds * 900;
  await expect(one.ensureHeld()).rejects.toThrow(LeaseLost);
  expect(lost).toEqual([clock.ms]);
});
