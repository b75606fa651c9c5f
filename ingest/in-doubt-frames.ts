/**
 * Tracks frames whose rows may be stored although no mark says so: those of partial batches, and of commits that
 * Postgres has lost. When they are delivered again, they are formed without the rows that ClickHouse has.
 */
import { tableOf } from '#clickhouse/rollups.ts';
import { DAY_MS } from '#common/durations.ts';
import { type FrameRange, rangesAheadMax } from '#common/log/marks.ts';
import type { BatchEntry, FrameRows, FrameRun, LedgerLine } from './checkpoints.ts';
import type { LogFrame } from './formed-batch.ts';
import { rowKey } from './formed-batch.ts';
import type { FrameSpan, RawStore } from './raw-store.ts';

/** Maximum ranges of a lane; if there are more, the frames between them are looked up too. */
const rangesMax = 4 * rangesAheadMax;

/** How far the clock that numbers batches may have been behind that of the log or of an edge. */
export const NUMBER_MARGIN_MS = DAY_MS;

export class InDoubtFrames {
  readonly #partition: number;
  readonly #lanes = new Map<string, FrameRange[]>();
  /** The frames of each partial batch that have not been delivered again yet. */
  #partial = new Map<number, { readonly frames: readonly FrameRun[]; readonly stored: readonly FrameRows[] }>();
  #isAll = false;
  /** Rows of frames in doubt are only in batches above this number. */
  #above = Number.POSITIVE_INFINITY;

  constructor(partition: number) {
    this.#partition = partition;
  }

  /** Adds a batch that is partly stored. */
  addBatch(entry: BatchEntry): void {
    const lanes = new Map<string, FrameRun[]>();
    for (const run of entry.frames) lanes.set(keyOf(run), [...(lanes.get(keyOf(run)) ?? []), run]);
    for (const [key, runs] of lanes) this.#add(key, runs);
    this.#partial.set(entry.batch_no, { frames: entry.frames, stored: entry.stored });
    this.#above = Math.min(this.#above, entry.batch_no - 1);
  }

  /**
   * Puts every frame in doubt. Its rows are looked up in batches above a number. For a frame written before that batch,
   * they are looked up in all batches since it was written: after a loss of the log it may have been published again,
   * long after it was stored.
   * @param known what is in doubt without that; from then on, both have the same partial batches.
   */
  addAll(above: number, known: InDoubtFrames): void {
    this.#isAll = true;
    this.#above = Math.min(known.#above, above);
    this.#partial = known.#partial;
  }

  /** Keys of the stored rows of these frames; `undefined` if none of the frames is in doubt. */
  async storedOf(frames: readonly LogFrame[], store: RawStore): Promise<ReadonlySet<string> | undefined> {
    const spans: FrameSpan[] = [];
    for (const { header } of frames) {
      const { producer_id, kind, frame_no } = header;
      if (!this.#has(header)) continue;
      const last = spans.at(-1);
      const isNext = last?.producer_id === producer_id && last.kind === kind && last.to === frame_no - 1;
      if (isNext) spans[spans.length - 1] = { ...last, to: frame_no };
      else spans.push({ producer_id, kind, from: frame_no, to: frame_no });
    }
    if (spans.length === 0) return undefined;
    const places = await store.placesOf(this.#partition, this.#isAll ? this.#aboveAll(frames) : this.#above, spans);
    return new Set(
      places.map(({ kind, producer_id, frame_no, idx }) => rowKey(tableOf(kind), producer_id, frame_no, idx)),
    );
  }

  /**
   * Rows that partial batches had of these frames, which are not committed yet, and that ClickHouse has lost since. The
   * batch that commits the frames stores them again, and takes them back from the ledger.
   */
  async goneOf(runs: readonly FrameRun[], store: RawStore): Promise<readonly LedgerLine[]> {
    const gone: LedgerLine[] = [];
    for (const { stored } of this.#partial.values()) {
      const had = stored.filter(({ frame_no, ...lane }) =>
        runs.some((run) => overlap(run, { ...lane, from: frame_no, to: frame_no })),
      );
      if (had.length === 0) continue;
      const from = had.reduce((first, { batch_from }) => Math.min(first, batch_from), Number.POSITIVE_INFINITY);
      const to = had.reduce((last, { batch_to }) => Math.max(last, batch_to), 0);
      const has = await store.rowsByFrame(this.#partition, [from, to], runs);
      const left = new Map(has.map((one) => [rowsKey(one), one.rows]));
      for (const { producer_id, kind, frame_no, ...line } of had) {
        const rows = line.rows - (left.get(rowsKey({ ...line, producer_id, kind, frame_no })) ?? 0);
        if (rows > 0) gone.push({ ...line, rows });
      }
    }
    return gone;
  }

  #aboveAll(frames: readonly LogFrame[]): number {
    // If its edge's clock was wrong, another delivery may have given a frame another time.
    const writtenSince = frames.map(({ header, isCorrected }) =>
      isCorrected === true ? 0 : Math.max(0, Math.floor(header.written_at) - NUMBER_MARGIN_MS),
    );
    return Math.min(this.#above, ...writtenSince);
  }

  /** @returns the numbers of partial batches whose frames are now all committed. */
  committed(runs: readonly FrameRun[]): number[] {
    const done: number[] = [];
    for (const [batchNo, { frames, stored }] of this.#partial) {
      const left = runs.reduce(without, frames);
      if (left.length > 0) {
        this.#partial.set(batchNo, { frames: left, stored });
        continue;
      }
      this.#partial.delete(batchNo);
      done.push(batchNo);
    }
    return done;
  }

  /** The frames of these runs that are not in doubt. */
  othersOf(runs: readonly FrameRun[]): readonly FrameRun[] {
    if (this.#isAll) return [];
    return runs.flatMap((run) => {
      const in_doubt = (this.#lanes.get(keyOf(run)) ?? []).map(([from, to]): FrameRun => ({ ...run, from, to }));
      return in_doubt.reduce(without, [run]);
    });
  }

  #has(name: Pick<LogFrame['header'], 'producer_id' | 'kind' | 'frame_no'>): boolean {
    if (this.#isAll) return true;
    const { frame_no } = name;
    return this.#lanes.get(keyOf(name))?.some(([from, to]) => frame_no >= from && frame_no <= to) ?? false;
  }

  #add(key: string, added: readonly FrameRun[]): void {
    const ranges = added.map(({ from, to }): FrameRange => [from, to]);
    const sorted = [...(this.#lanes.get(key) ?? []), ...ranges].sort(([a], [b]) => a - b);
    const merged: [from: number, to: number][] = [];
    for (const [from, to] of sorted) {
      const last = merged.at(-1);
      if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
    }
    const [first, last] = [merged[0], merged.at(-1)];
    const isTooMany = merged.length > rangesMax && first !== undefined && last !== undefined;
    this.#lanes.set(key, isTooMany ? [[first[0], last[1]]] : merged);
  }
}

function keyOf({ producer_id, kind }: Pick<FrameRun, 'producer_id' | 'kind'>): string {
  return `${producer_id}:${kind}`;
}

function rowsKey({ table, partition, batch_from, producer_id, kind, frame_no }: FrameRows): string {
  return `${table}:${partition}:${Math.floor(batch_from / DAY_MS)}:${producer_id}:${kind}:${frame_no}`;
}

function overlap(one: FrameRun, other: FrameRun): boolean {
  return keyOf(one) === keyOf(other) && one.from <= other.to && one.to >= other.from;
}

/** The runs, minus the frames of another run. */
function without(runs: readonly FrameRun[], gone: FrameRun): readonly FrameRun[] {
  if (!runs.some((run) => overlap(run, gone))) return runs;
  return runs.flatMap((run) => {
    if (keyOf(run) !== keyOf(gone)) return [run];
    const parts = [
      { ...run, to: Math.min(run.to, gone.from - 1) },
      { ...run, from: Math.max(run.from, gone.to + 1) },
    ];
    return parts.filter(({ from, to }) => from <= to);
  });
}
