/**
 * The journal of an edge process, which makes answered records durable.
 *
 *   <root>/<slot>/<producer_id>/00000001.seg, 00000002.seg …
 *
 * The slot is the name of the process on its machine and is locked while the process lives. Each start creates a new
 * producer, so nothing is ever appended after a torn tail. All appends of one event loop turn form one group: one frame
 * per lane (more if it is large), one write, then the waiters, in order.
 *
 *   idle ──append──▶ collecting ──end of turn──▶ written ──▶ waiters committed (sync after_answer)
 *                        │                          └─fdatasync─▶ waiters committed (sync before_answer)
 *                        └─write fails─▶ new segment, the same frames again ─fails─▶ waiters refused, producer given up
 *   given up ──100 ms, then at the end of a turn or within a second──▶ a new producer ─fails─▶ given up
 *
 * Invariants:
 * - A waiter gets exactly one call of committed() or refused(), never from inside append().
 * - Per producer and lane, frame numbers on disk have no gap; the same number always has the same bytes. After a group
 *   could not be written at all, its numbers are used up, so the producer is abandoned and a new one begins.
 * - Data of a failed fdatasync is rewritten into a new segment, because Linux reports such a failure only once. It is
 *   never rewritten into another producer's folder: pending waiters of an abandoned producer are refused, and those
 *   already answered are counted.
 */
import { join } from 'node:path';
import type { RecordKind } from '#common/log/record.ts';
import type { Timer } from '#common/time.ts';
import { FolderSize } from './folder-size.ts';
import { FrameBuffer, groupCharsMax, type JournalLane, roomAround, roomOf } from './frame-buffer.ts';
import { newJournalCounters } from './journal-counters.ts';
import { newProducerId } from './producer-names.ts';
import { makeFolder, requireRoom, Segment } from './segment.ts';
import { SegmentCopy, WaitingCopies } from './segment-copy.ts';
import { type HeldLock, lockWithin } from './slot-lock.ts';
import { nodeSystem, type System } from './system.ts';
import { UnsyncedGroups, type Waiter } from './unsynced-groups.ts';

export { groupCharsMax, type JournalLane, roomAround, roomOf, type Waiter };

export interface JournalOptions {
  readonly root: string;
  readonly slot: string;
  readonly segmentBytes: number;
  /** Maximum bytes of this slot that the sink has not committed yet. */
  readonly bytesMax: number;
  readonly sync: 'after_answer' | 'before_answer';
  /** Maximum bytes in memory until they are synced; a turn's records must fit. */
  readonly unsyncedBytesMax?: number;
  /** How long `open` waits for a process that has the slot and may be ending. */
  readonly slotWaitMs?: number;
  /** Called with problems that need an operator's attention. */
  readonly log?: (line: string) => void;
}

/** Together with the sync itself this stays within 10 ms. */
const syncDelayMs = 8;
const syncFailuresMax = 3;
const measureIntervalMs = 1000;
const restartDelayMs = 100;
/** A segment without a write for this many measurements is ended, so that it can be deleted once it is committed. */
const idleTicksMax = 30;

export class Journal {
  readonly counters = newJournalCounters();
  readonly #options: JournalOptions;
  readonly #system: System;
  readonly #folder: string;
  readonly #lock: HeldLock;
  readonly #group: FrameBuffer;
  readonly #unsynced: UnsyncedGroups;
  readonly #size: FolderSize;
  #producer = '';
  #segment: Segment | undefined;
  #retiring: Segment[] = [];
  readonly #copies: WaitingCopies;
  #restartAt = 0;
  #waiting: Waiter[] = [];
  #turnedAway: Waiter[] = [];
  #isScheduled = false;
  #isSyncing = false;
  #syncFailuresInRow = 0;
  #syncTimer: Timer | undefined;
  readonly #measureTimer: Timer;
  #isClosed = false;
  #isLockLost = false;
  #fault = '';
  /** The length of the segment at the last tick, and for how many ticks it has not grown. */
  #idleBytes = 0;
  #idleTicks = 0;
  readonly #onTurnEnd = () => this.#commit();

  private constructor(options: JournalOptions, system: System, folder: string, lock: HeldLock) {
    this.#options = options;
    this.#system = system;
    this.#folder = folder;
    this.#lock = lock;
    this.#group = new FrameBuffer(system.time.now);
    this.#copies = new WaitingCopies((line) => options.log?.(line));
    this.#unsynced = new UnsyncedGroups(options.unsyncedBytesMax);
    this.#size = new FolderSize(system.disk, folder);
    this.#measureTimer = system.time.every(measureIntervalMs, () => this.#tick());
  }

  /** @throws Error if another process has the slot and keeps it, or if the folder can't be written. */
  static async open(options: JournalOptions, system = nodeSystem): Promise<Journal> {
    const folder = join(options.root, options.slot);
    makeFolder(system.disk, folder);
    const lock = await lockWithin(system, folder, options.slotWaitMs ?? 0);
    if (lock === undefined) throw new Error(`The journal ${folder} belongs to another process that is running.`);
    const journal = new Journal(options, system, folder, lock);
    await journal.#size.measure();
    journal.#begin();
    return journal;
  }

  /** The name of this start of the process in frames and marks; a new one after the disk refused a group. */
  get producerId(): string {
    return this.#producer;
  }

  /** Whether appends are accepted: there is room and the last write succeeded. */
  get isWritable(): boolean {
    return !this.#isClosed && this.#size.bytes < this.#options.bytesMax && this.#segment !== undefined;
  }

  /** Bytes on disk of this slot, including those of earlier producers. */
  get bytesOnDisk(): number {
    return this.#size.bytes;
  }

  /** The handle to append with, to be kept. */
  lane(kind: RecordKind, partition: number): JournalLane {
    return this.#group.lane(kind, partition);
  }

  /** Whether this turn has room for this many more characters (`roomOf`): asked before records that belong together. */
  hasRoom(chars: number): boolean {
    return this.#group.hasRoom(chars);
  }

  /** Appends one record: a line of JSON without its newline, at most recordCharsMax long. */
  append(lane: JournalLane, json: string, waiter: Waiter): void {
    this.#take(this.#mayTake() && this.#group.add(lane, json), waiter);
  }

  /** As `append`, for a record whose middle is bytes of UTF-8 without line breaks, one character each. */
  appendAround(lane: JournalLane, head: string, body: string, tail: string, waiter: Waiter): void {
    this.#take(this.#mayTake() && this.#group.addAround(lane, head, body, tail), waiter);
  }

  #mayTake(): boolean {
    return !this.#isClosed && this.#size.bytes < this.#options.bytesMax;
  }

  #take(isTaken: boolean, waiter: Waiter): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      this.#system.time.atTurnEnd(this.#onTurnEnd);
    }
    (isTaken ? this.#waiting : this.#turnedAway).push(waiter);
  }

  /** Writes and syncs all appended records, then releases the slot. */
  async close(): Promise<void> {
    this.#commit();
    this.#saveDeleted();
    this.#saveLater();
    this.#copies.abandonAll();
    this.#isClosed = true;
    const { time } = this.#system;
    time.clear(this.#measureTimer);
    time.clear(this.#syncTimer);
    while (this.#isSyncing) await new Promise<void>((done) => time.atTurnEnd(done));
    await this.#sync();
    for (const segment of this.#retiring) segment.close();
    this.#segment?.close();
    this.#segment = undefined;
    await this.#lock.release();
  }

  /** The end of a turn: writes everything appended with one call. */
  #commit(): void {
    this.#isScheduled = false;
    const { bytes, frames } = this.#group.take();
    const waiters = this.#waiting;
    const turnedAway = this.#turnedAway;
    this.#waiting = [];
    this.#turnedAway = [];
    if (bytes.length > 0 && this.#write(bytes)) {
      this.counters.records += waiters.length;
      this.counters.frames += frames;
      this.#keepUntilSynced(bytes, waiters);
    } else {
      turnedAway.push(...waiters);
    }
    this.counters.refused += turnedAway.length;
    for (const waiter of turnedAway) waiter.refused();
    this.#beginAgain();
  }

  /**
   * Also runs without appends: a caller that checks isWritable first would otherwise wait forever for another append.
   */
  #tick(): void {
    // Frames of the current turn already have their numbers, and are refused at its end.
    if (!this.#isScheduled) this.#beginAgain();
    void this.#keepLock();
    this.#saveDeleted();
    this.#saveLater();
    this.#endIdle();
    void this.#size.measure();
  }

  #beginAgain(): void {
    if (this.#segment !== undefined || this.#isClosed) return;
    if (this.#system.time.elapsed() >= this.#restartAt) this.#begin();
  }

  #write(bytes: Buffer): boolean {
    if (this.#segment === undefined) return false;
    try {
      if (this.#segment.bytes > 0 && this.#segment.bytes + bytes.length > this.#options.segmentBytes) this.#rotate();
      this.#segment.append(bytes);
    } catch {
      this.counters.write_failures++;
      if (!this.#writeAgain([bytes])) return false;
    }
    this.counters.writes++;
    this.counters.bytes += bytes.length;
    this.#size.add(bytes.length);
    return true;
  }

  /** Writes the same frames into a new segment. If that fails too, the producer is given up. */
  #writeAgain(groups: Buffer[]): boolean {
    try {
      this.#rotate();
      for (const bytes of groups) this.#segment?.append(bytes);
      return this.#segment !== undefined;
    } catch (error) {
      this.counters.write_failures++;
      this.#giveUp(error);
      return false;
    }
  }

  async #keepLock(): Promise<void> {
    const isHeld = await this.#lock.renew();
    if (!isHeld && !this.#isLockLost)
      this.#options.log?.(`${this.#folder} was taken by another process that is running`);
    this.#isLockLost = !isHeld;
  }

  /** Writes a segment again that was deleted while it was being written. Marks drop frames that are already committed. */
  #saveDeleted(): void {
    const deleted = this.#segment;
    if (deleted === undefined || !deleted.isDeleted) return;
    this.counters.deleted_segments++;
    this.#options.log?.(
      `segment ${deleted.no} of ${join(this.#folder, this.#producer)} was deleted while it was being written: ` +
        `writing its ${deleted.bytes} bytes again`,
    );
    const copy = new SegmentCopy(this.#system.disk, join(this.#folder, this.#producer), deleted);
    try {
      this.#segment = copy.proceed();
      this.#retiring.push(deleted);
      this.#syncSoon();
    } catch (error) {
      this.#options.log?.(`they cannot be written again yet, retrying every second: ${String(error)}`);
      this.counters.write_failures++;
      this.#segment = undefined;
      this.#giveUp();
      this.#copies.add(copy);
    }
  }

  /** Deleted segments for which the disk had no room. */
  #saveLater(): void {
    const { written, failures } = this.#copies.proceed();
    this.counters.write_failures += failures;
    if (written.length === 0) return;
    this.#retiring.push(...written);
    this.#syncSoon();
  }

  #endIdle(): void {
    const bytes = this.#segment?.bytes ?? 0;
    this.#idleTicks = bytes > 0 && bytes === this.#idleBytes ? this.#idleTicks + 1 : 0;
    this.#idleBytes = bytes;
    if (this.#idleTicks < idleTicksMax) return;
    this.#idleTicks = 0;
    try {
      this.#rotate();
      this.#syncSoon();
    } catch {
      this.counters.write_failures++; // A full disk loses nothing here: this is tried again.
    }
  }

  #rotate(): void {
    this.#saveDeleted();
    const old = this.#segment;
    if (old === undefined) return;
    this.#segment = Segment.create(this.#system.disk, join(this.#folder, this.#producer), old.no + 1);
    this.#retiring.push(old);
  }

  #giveUp(error?: unknown): void {
    const fault =
      error === undefined ? '' : `${this.#folder} cannot be written, so records are refused: ${String(error)}`;
    if (this.#fault === '' && fault !== '') this.#options.log?.(fault);
    this.#fault ||= fault;
    if (this.#segment !== undefined) this.#retiring.push(this.#segment);
    this.#segment = undefined;
    this.#syncSoon(); // Closes it, since a deleted file that is open still fills the disk.
    this.#unsynced.giveUp();
    this.#restartAt = this.#system.time.elapsed() + restartDelayMs;
  }

  /** A new producer: its own folder, with frames counted from 1. */
  #begin(): void {
    let producer: string;
    try {
      makeFolder(this.#system.disk, this.#folder);
      requireRoom(this.#system.disk, this.#folder, this.#producer !== '');
      producer = newProducerId(this.#system, this.#folder, this.#producer);
      makeFolder(this.#system.disk, join(this.#folder, producer));
      this.#segment = Segment.create(this.#system.disk, join(this.#folder, producer), 1);
    } catch (error) {
      if (this.#producer === '') throw error;
      this.counters.write_failures++;
      this.#giveUp(error);
      return;
    }
    if (this.#fault !== '') this.#options.log?.(`${this.#folder} can be written again`);
    this.#fault = '';
    this.#producer = producer;
    this.#group.begin(producer);
  }

  #keepUntilSynced(bytes: Buffer, waiters: Waiter[]): void {
    const isAnsweredLater = this.#options.sync === 'before_answer';
    this.#unsynced.add(bytes, isAnsweredLater ? waiters : []);
    if (isAnsweredLater) {
      if (!this.#isSyncing) void this.#sync();
      return;
    }
    if (this.#syncTimer === undefined && !this.#isSyncing) this.#syncTimer = this.#syncLater();
    for (const waiter of waiters) waiter.committed();
  }

  #syncSoon(): void {
    if (this.#syncTimer === undefined && !this.#isSyncing && !this.#isClosed) this.#syncTimer = this.#syncLater();
  }

  #syncLater(): Timer {
    return this.#system.time.after(syncDelayMs, () => void this.#sync());
  }

  /** One fdatasync at a time, each for everything that was written before it began. */
  async #sync(): Promise<void> {
    this.#isSyncing = true;
    this.#syncTimer = undefined;
    const { seq } = this.#unsynced;
    // Captured now: an append during the first sync may continue in another segment, and then this one is retired.
    const current = this.#segment;
    const retired = this.#retiring;
    this.#retiring = [];
    let isSynced = true;
    try {
      for (const segment of retired) await segment.sync();
      await current?.sync();
      this.counters.syncs++;
      this.#syncFailuresInRow = 0;
    } catch {
      this.counters.sync_failures++;
      isSynced = false;
    }
    for (const segment of retired) segment.close();
    this.#isSyncing = false;
    if (isSynced) this.#unsynced.settle(seq, true);
    else this.#afterFailedSync();
    if (this.#unsynced.isEmpty && this.#retiring.length === 0) return;
    if (this.#options.sync === 'before_answer') void this.#sync();
    else if (!this.#isClosed) this.#syncTimer = this.#syncLater();
  }

  /** Rewrites the producer's unsynced frames into a new segment. Waiters of frames that can't be rewritten are refused. */
  #afterFailedSync(): void {
    if (++this.#syncFailuresInRow >= syncFailuresMax || !this.#writeAgain(this.#unsynced.bytes)) this.#giveUp();
    if (this.#unsynced.hasGivenUp) {
      this.counters.unsynced++;
      this.#options.log?.(
        `${join(this.#folder, this.#producer)} could not be synced: a power loss may destroy the last answered records until they are stored`,
      );
    }
    this.#unsynced.refuseGivenUp();
  }
}
