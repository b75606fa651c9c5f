/**
 * Sink parts that send traces: when a batch is committed, each sampled click in it gets a span for the batch and, below
 * it, one span for each insert of its table and one for the commit.
 */
import { traceOfClick } from '#common/tracing/click-traces.ts';
import { newSpanId, type SpanContent, type Tracing } from '#common/tracing/tracing.ts';
import { Trail } from '#common/tracing/trail.ts';
import { withMethods } from '#common/tracing/with-methods.ts';
import type { LogFrame } from './formed-batch.ts';
import type { SinkParts } from './held-partition.ts';

interface FollowedBatch {
  readonly clickIds: readonly string[];
  readonly trail: Trail;
  readonly inserts: SpanContent[];
}

/** Maximum sampled clicks per batch; further ones get no span. */
const clicksMax = 256;
/** Batches that are never committed under their number are dropped, oldest first. */
const batchesMax = 128;
/** Maximum recorded inserts per batch: one for each table and month. */
const insertsMax = 16;

export function tracedSink(parts: SinkParts, tracing: Tracing): SinkParts {
  const batches = new Map<string, FollowedBatch>();
  const keyOf = (partition: number, batchNo: number) => `${partition}:${batchNo}`;
  return {
    ...parts,
    former: {
      begin: (partition, untilMs) => parts.former.begin(partition, untilMs),
      form: async (name, frames, changes) => {
        const trail = new Trail(Date.now());
        const formed = await parts.former.form(name, frames, changes);
        const clickIds = sampledIn(frames, tracing);
        if (clickIds.length > 0) batches.set(keyOf(name.partition, name.batch_no), { clickIds, trail, inserts: [] });
        for (const oldest of batches.keys()) {
          if (batches.size <= batchesMax) break;
          batches.delete(oldest);
        }
        return formed;
      },
    },
    store: withMethods(parts.store, {
      insert: async (name, part) => {
        const batch = batches.get(keyOf(name.partition, name.batch_no));
        const startMs = batch?.trail.now() ?? 0;
        const outcome = await parts.store.insert(name, part);
        if (batch !== undefined && batch.inserts.length < insertsMax) {
          const error = outcome.kind === 'written' ? '' : outcome.kind;
          batch.inserts.push(insertOf(part.table, part.rows, startMs, batch.trail.now(), error));
        }
        return outcome;
      },
    }),
    checkpoints: withMethods(parts.checkpoints, {
      commit: async (lease, batchNo, ...rest) => {
        const key = keyOf(lease.partition, batchNo);
        const batch = batches.get(key);
        const startMs = batch?.trail.now() ?? 0;
        await parts.checkpoints.commit(lease, batchNo, ...rest);
        batches.delete(key);
        if (batch !== undefined) addSpans(tracing, lease.partition, batchNo, batch, startMs);
      },
    }),
  };
}

function sampledIn(frames: readonly LogFrame[], tracing: Tracing): string[] {
  const ids: string[] = [];
  for (const { header, bytes } of frames) {
    if (ids.length >= clicksMax) break;
    if (header.kind === 'click') ids.push(...tracing.clicks.idsIn(bytes, clicksMax - ids.length));
  }
  return ids;
}

function insertOf(table: string, rows: number, startMs: number, endMs: number, error: string): SpanContent {
  const name = `INSERT ${table}`;
  const attributes = { 'db.system.name': 'clickhouse', 'db.query.summary': name, 'signpost.rows': rows };
  return { name, kind: 'client', startMs, endMs, attributes, error };
}

function addSpans(tracing: Tracing, partition: number, batchNo: number, batch: FollowedBatch, commitMs: number): void {
  const { clickIds, trail, inserts } = batch;
  const endMs = trail.now();
  const commit: SpanContent = {
    name: 'commit marks',
    kind: 'client',
    startMs: commitMs,
    endMs,
    attributes: { 'db.system.name': 'postgresql' },
  };
  for (const id of clickIds) {
    const { traceId, spanId: parentId } = traceOfClick(id);
    const spanId = newSpanId();
    const attributes = {
      'messaging.system': 'nats',
      'signpost.partition': partition,
      'signpost.batch_no': batchNo,
    };
    const { startMs } = trail;
    tracing.add({ traceId, spanId, parentId }, { name: 'store batch', kind: 'consumer', startMs, endMs, attributes });
    for (const step of [...inserts, commit]) tracing.add({ traceId, spanId: newSpanId(), parentId: spanId }, step);
  }
}
