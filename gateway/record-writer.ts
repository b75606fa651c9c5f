/** Appends the records of one request to the journal; the request gets one answer for all of them. */
import { setImmediate as turnEnd } from 'node:timers/promises';
import {
  groupCharsMax,
  type Journal,
  type JournalLane,
  roomAround,
  roomOf,
  type Waiter,
} from '#common/journal/journal.ts';
import { partitionOf } from '#common/log/partition.ts';
import { type RecordKind, recordKinds } from '#common/log/record.ts';

interface Identified {
  /** The id by which the record is counted once: event_id, install_id, click_id. */
  readonly id: string;
}

/** A line of JSON, or bytes of a request (one character each, no line break) with the text before and after them. */
export type PendingRecord = Identified &
  ({ readonly json: string } | { readonly head: string; readonly body: string; readonly tail: string });

class AllWaiter implements Waiter {
  #left: number;
  #isRefused = false;
  readonly #done: (isKept: boolean) => void;

  constructor(count: number, done: (isKept: boolean) => void) {
    this.#left = count;
    this.#done = done;
  }

  committed(): void {
    if (--this.#left === 0) this.#done(!this.#isRefused);
  }

  refused(): void {
    this.#isRefused = true;
    this.committed();
  }
}

/** Maximum part of a large batch that goes into one turn. */
const partCharsMax = groupCharsMax / 4;

function roomOfOne(record: PendingRecord): number {
  return 'json' in record ? roomOf(record.json) : roomAround(record.head, record.body, record.tail);
}

/** Splits the records into parts of at most `partCharsMax`, in order. */
function* partsOf(records: readonly PendingRecord[]): Generator<{ part: PendingRecord[]; room: number }> {
  let part: PendingRecord[] = [];
  let room = 0;
  for (const record of records) {
    const more = roomOfOne(record);
    if (part.length > 0 && room + more > partCharsMax) {
      yield { part, room };
      part = [];
      room = 0;
    }
    part.push(record);
    room += more;
  }
  yield { part, room };
}

export class RecordWriter {
  readonly #journal: Journal;
  readonly partitions: number;
  readonly #lanes = new Map<RecordKind, JournalLane[]>();

  constructor(journal: Journal, partitions: number) {
    this.#journal = journal;
    this.partitions = partitions;
    for (const kind of recordKinds) {
      this.#lanes.set(
        kind,
        Array.from({ length: partitions }, (_, partition) => journal.lane(kind, partition)),
      );
    }
  }

  /**
   * Whether the journal accepts records now; checked first, so that no work is done for a batch that would be refused.
   */
  get isOpen(): boolean {
    return this.#journal.isWritable;
  }

  /**
   * @returns true if every record is stored, false if none is: records stored from a refused batch would be counted
   * twice after the app resends it. Exception: a batch larger than a turn is spread over several turns, and is partly
   * stored if the journal reaches its limit, or its disk fails, after the first of them.
   */
  write(kind: RecordKind, appId: string, records: readonly PendingRecord[]): Promise<boolean> {
    if (records.length === 0) return Promise.resolve(true);
    let room = 0;
    for (const record of records) room += roomOfOne(record);
    const isForTurns = room > groupCharsMax && Number.isFinite(room);
    return isForTurns ? this.#writeInTurns(kind, appId, records) : this.#append(kind, appId, records, room);
  }

  async #writeInTurns(kind: RecordKind, appId: string, records: readonly PendingRecord[]): Promise<boolean> {
    let isBegun = false;
    for (const { part, room } of partsOf(records)) {
      // A batch that has begun is not refused because others filled this turn: the next turn is empty.
      while (isBegun && this.isOpen && !this.#journal.hasRoom(room)) await turnEnd();
      if (!(await this.#append(kind, appId, part, room))) return false;
      isBegun = true;
    }
    return true;
  }

  /** Appends all of them in this turn, or none. */
  #append(kind: RecordKind, appId: string, records: readonly PendingRecord[], room: number): Promise<boolean> {
    if (!this.#journal.hasRoom(room)) return Promise.resolve(false);
    return new Promise((done) => {
      const waiter = new AllWaiter(records.length, done);
      for (const record of records) {
        const lane = this.#lane(kind, appId, record.id);
        if ('json' in record) this.#journal.append(lane, record.json, waiter);
        else this.#journal.appendAround(lane, record.head, record.body, record.tail, waiter);
      }
    });
  }

  #lane(kind: RecordKind, appId: string, id: string): JournalLane {
    const lane = this.#lanes.get(kind)?.[partitionOf(appId, id, this.partitions)];
    if (!lane) throw new Error(`no journal lane for ${kind}`);
    return lane;
  }
}
