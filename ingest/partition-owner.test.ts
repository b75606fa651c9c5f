import { expect, test } from 'vitest';
import type { NatsClient } from '#common/stores/nats.ts';
import { systemTime } from '#common/time.ts';
import { type Checkpoints, type Lease, LeaseLost } from './checkpoints.ts';
import type { SinkParts } from './held-partition.ts';
import { PartitionOwner } from './partition-owner.ts';
import { newSinkCounters } from './sink-counters.ts';

const lease: Lease = { partition: 0, owner: 'ingest-0', epoch: 2, lastBatchNo: 0 };

test('a wait for other partitions ends once the lease is lost, although the partition itself still waits for a store', async () => {
  const postgres = { isOther: false, isAsked: false };
  const checkpoints: Partial<Checkpoints> = {
    acquire: async () => lease,
    renew: async () => {
      if (postgres.isOther) throw new LeaseLost(lease);
    },
    release: async () => undefined,
    streamTime: () => {
      postgres.isAsked = true;
      return new Promise(() => undefined);
    },
  };
  const owner = new PartitionOwner({
    partition: 0,
    owner: 'ingest-0',
    leaseSeconds: 0.3,
    installationId: 'a',
    nats: {} as NatsClient,
    limits: { batchRows: 1, batchBytes: 1, flushIntervalMs: 1 },
    sink: { checkpoints } as SinkParts,
    counters: newSinkCounters(),
    time: systemTime,
  });
  owner.start();
  await expect.poll(() => postgres.isAsked).toBe(true);
  owner.ensureStays();
  postgres.isOther = true;
  const stays = () => {
    owner.ensureStays();
    return true;
  };
  await expect.poll(() => errorOf(stays)).toBeInstanceOf(LeaseLost);
});

function errorOf(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}
