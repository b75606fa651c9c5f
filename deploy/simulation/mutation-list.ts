/** Safeguards of the record path, each with a replacement of source code that removes it. */
export interface Mutation {
  readonly without: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export const mutations: readonly Mutation[] = [
  {
    without: 'purging what is committed from the log',
    file: 'ingest/log-room.ts',
    from: 'fill.bytes >= fill.bytesMax * purgeAbove',
    to: 'false',
  },
  {
    without: 'ending the segment of an idle process',
    file: 'common/journal/journal.ts',
    from: 'const idleTicksMax = 30;',
    to: 'const idleTicksMax = 1e9;',
  },
  {
    without: 'reading the marks of lanes that were silent for long',
    file: 'ingest/partition-batches.ts',
    from: 'await this.#recallMarks(frames);',
    to: '',
  },
  {
    without: 'leaving out what a mark that was looked up commits',
    file: 'ingest/partition-batches.ts',
    from: 'const fresh = queue.withoutCommitted(frames);',
    to: 'const fresh = frames;',
  },
  {
    without: 'comparing the marks with what ClickHouse stores above them',
    file: 'ingest/recovery.ts',
    from: 'if (newestNo > 0) await',
    to: 'if (newestNo < 0) await',
  },
  {
    without: 'detecting that Postgres went back under a living owner',
    file: 'deploy/simulation/postgres-state.ts',
    from: 'if (row === undefined || !isKnown || open.length > 0)',
    to: 'if (row === undefined)',
  },
  {
    without: 'writing to Postgres what it had lost',
    file: 'ingest/recovery.ts',
    from: 'await sink.numbers.learn(entry, Math.max(newest.raw, newest.rolled));',
    to: 'held.inDoubt.addBatch(entry);',
  },
  {
    without: 'the fence',
    file: 'ingest/batch-numbers.ts',
    from: 'const fence = await this.#held.patiently(raise);',
    to: 'void raise; const fence = { batchNoMin, owner: this.#owner };',
  },
  {
    without: 'raising the fence before a rollup is filled in once more',
    file: 'ingest/reconciler.ts',
    from: 'if (tries > 0) await this.#numbers.raiseFenceByOne();\n      const missing',
    to: 'const missing',
  },
  {
    without: 'ending when the fence belongs to another owner',
    file: 'ingest/batch-numbers.ts',
    from: 'if (fence.owner !== this.#owner)',
    to: 'if (false)',
  },
  {
    without: 'filling in rollups',
    file: 'ingest/reconciler.ts',
    from: 'for (const rollup of missing) {',
    to: 'for (const rollup of missing.slice(99)) {',
  },
  {
    without: 'syncing the segment that a sync began with',
    file: 'common/journal/journal.ts',
    from: 'await current?.sync();',
    to: 'await this.#segment?.sync();',
  },
  {
    without: 'recognizing a new log after the old one was lost',
    file: 'ingest/log-room.ts',
    from: "if (fill?.installationId === '')",
    to: 'if (false)',
  },
  {
    without: 'publishing again what the log has dropped for its age',
    file: 'publisher/lane-progress.ts',
    from: 'now - logAgeMaxMs',
    to: '0',
  },
  {
    without: 'owning the partitions that only the log knows of, after LOG_PARTITIONS was changed',
    file: 'ingest/partition-share.ts',
    from: ', ...inLog]',
    to: ']',
  },
  {
    without: 'owning the partitions that only ClickHouse knows of, after Postgres was restored',
    file: 'ingest/owned-partitions.ts',
    from: ', ...this.#inStore]',
    to: ']',
  },
  {
    without: 'marks of its own for each partition that a producer writes to',
    file: 'common/log/marks.ts',
    from: '{lane.partition}`',
    to: '{0}`',
  },
  {
    without: 'noticing that the lease is gone while strays wait',
    file: 'ingest/partition-owner.ts',
    from: 'this.#lease.isLost || ',
    to: '',
  },
  {
    without: 'storing again what ClickHouse lost in a restore',
    file: 'ingest/revision.ts',
    from: 'if (revision.replay_from !== null)',
    to: 'if (false)',
  },
  {
    without: 'keeping in the log what is to be replayed',
    file: 'ingest/log-room.ts',
    from: ' || (await this.#isReplayWanted(partition))',
    to: '',
  },
  {
    without: 'correcting rollups after a restore',
    file: 'ingest/revision.ts',
    from: 'cellsCorrected += await reconciler.correct(day);',
    to: '',
  },
  {
    without: 'waiting for Postgres in a replay',
    file: 'ingest/revision.ts',
    from: 'held.patiently(() => parts.checkpoints.marks(partition))',
    to: 'parts.checkpoints.marks(partition)',
  },
  {
    without: 'reading to the end of the log in a replay, whatever the clocks say',
    file: 'ingest/revision.ts',
    from: 'queue.counters.committed_frames >= framesWanted',
    to: 'position >= time.now()',
  },
  {
    without: 'looking up ids that may have arrived before',
    file: 'ingest/attribution/first-seen.ts',
    from: 'recent[at] === undefined && this.#isMaybe(claim)',
    to: 'recent[at] === undefined && at < 0',
  },
  {
    without: 'separating the uses of an id by day',
    file: 'ingest/attribution/first-seen.ts',
    from: 'if (near === undefined && !isPast(known, claim)) near = known;',
    to: 'near = known;',
  },
  {
    without: 'claims stored in Postgres',
    file: 'gateway/match/matching.ts',
    from: 'const outcome = await claims.claim(claim);',
    to: "const outcome = { state: 'claimed' } as ClaimOutcome;",
  },
  {
    without: 'reading clicks again that Redis has lost',
    file: 'ingest/attribution/recent-clicks-feed.ts',
    from: 'stored[0] === this.#begin) return;',
    to: 'this.#begin > 0) return;',
  },
  {
    without: 'looking further back in a replay for frames that were written earlier',
    file: 'ingest/in-doubt-frames.ts',
    from: 'Math.min(this.#above, ...writtenSince)',
    to: 'this.#above',
  },
  {
    without: 'publishing again what lies in front of damage',
    file: 'publisher/publisher.ts',
    from: 'const read = producer.reader.next();',
    to: "if (producer.damage !== '') break; const read = producer.reader.next();",
  },
  {
    without: 'a reader that never skips forward when it is sent back',
    file: 'publisher/producer-reader.ts',
    from: 'if (position !== undefined && (at > this.#at || (at === this.#at && position.offset >= this.#offset))) return;',
    to: '',
  },
  {
    without: 'forgetting which installs were absent when a partition is taken',
    file: 'ingest/attribution/late-events.ts',
    from: 'this.#parts.installs.forgetAbsent();',
    to: '',
  },
  {
    without: 'a lease that ends although Postgres, set back, would renew it',
    file: 'ingest/held-lease.ts',
    from: 'if (requestedAt >= this.#endsAt) {',
    to: 'if (requestedAt < 0) {',
  },
  {
    without: 'a lease that is lost when Postgres has lost commits, although no more records come',
    file: 'ingest/held-lease.ts',
    from: 'seconds, this.#decidedNo)',
    to: 'seconds, 0)',
  },
  {
    without: 'forgetting the ids of records that were not stored when a partition is taken',
    file: 'ingest/attribution/first-seen.ts',
    from: 'this.#young = new Map();\n    this.#old = new Map();',
    to: '',
  },
  {
    without: 'looking behind a gap for frames that were written again',
    file: 'publisher/producer-reader.ts',
    from: "return { state: 'skipped' };",
    to: "return { state: 'damaged', reason: key };",
  },
  {
    without: 'an acknowledgement of a frame whose successors are committed',
    file: 'publisher/ack-samples.ts',
    from: 'if (sample.to === frameNo || marks.hasAll(frameNo + 1, sample.to))',
    to: 'if (sample.to === frameNo)',
  },
];
