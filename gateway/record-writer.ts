/** Records of one request on their way into the journal, and the one answer that all of them wait for. */
import { type Journal, type JournalLane, roomAround, roomOf, type Waiter } from '#common/log/journal.ts';
import { partitionOf } from '#common/log/partition.ts';
import type { RecordKind } from '#common/log/record.ts';

interface Identified {
  /** What is counted once: event_id, install_id, click_id. */
  readonly id: string;
}

/** A line of JSON; or bytes of a request (a character for each, no line break) with the text that makes them one. */
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

function roomOfAll(records: readonly PendingRecord[]): number {
  let room = 0;
  for (const record of records) {
    room += 'json' in record ? roomOf(record.json) : roomAround(record.head, record.body, record.tail);
  }
  return room;
}

export class RecordWriter {
  readonly #journal: Journal;
  readonly partitions: number;
  readonly #lanes = new Map<RecordKind, JournalLane[]>();

  constructor(journal: Journal, partitions: number) {
    this.#journal = journal;
    this.partitions = partitions;
    for (const kind of ['click', 'install', 'event'] as const) {
      this.#lanes.set(
        kind,
        Array.from({ length: partitions }, (_, partition) => journal.lane(kind, partition)),
      );
    }
  }

  /** Whether the journal takes records now; asked first, so that nothing is done for a batch that will be refused. */
  get isOpen(): boolean {
    return this.#journal.isWritable;
  }

  /**
   * True when every record is kept, false when none is: what is kept of a batch that was refused is counted twice once the
   * app has sent it again.
   */
  write(kind: RecordKind, appId: string, records: readonly PendingRecord[]): Promise<boolean> {
    if (records.length === 0) return Promise.resolve(true);
    if (!this.#journal.hasRoom(roomOfAll(records))) return Promise.resolve(false);
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
    if (!lane) throw new Error(`there is no lane for ${kind}`);
    return lane;
  }
}
