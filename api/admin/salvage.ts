/**
 * `npm run admin -- salvage`: reads what is intact in the journals of a folder, such as a copy of a damaged disk, says
 * what of it is not stored, and can add that to a journal folder, whose publisher hands it to the log. The numbers of the
 * frames decide what is new, so nothing is counted twice.
 */
import { chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Command } from 'commander';
import { nodeDisk } from '#common/journal/disk.ts';
import { foldersIn, producersOf } from '#common/journal/producer-names.ts';
import { Segment, segmentShape } from '#common/journal/segment.ts';
import { SegmentReader } from '#common/journal/segment-reader.ts';
import type { FrameHeader } from '#common/log/frame.ts';
import { type FrameRange, FrameSet, laneKeyOf, rangesOf } from '#common/log/marks.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { AdminContext } from './admin-context.ts';
import { AdminError } from './questions.ts';

/** How deep the folders of producers may be: DATA_DIR/journal/slot/producer. */
const depthMax = 3;
const salvagedSlot = 'salvaged';

export function addSalvageCommand(program: Command, context: AdminContext): void {
  program
    .command('salvage')
    .description('Say what is intact in the journals of a folder, and what of that is not stored.')
    .argument('<folder>', 'DATA_DIR of a machine, a copy of its folder journal, or one producer’s folder')
    .option('--into <folder>', 'add what is not stored to DATA_DIR/journal of a machine whose publisher runs')
    .action(async (folder: string, { into }: { into?: string }) => {
      const producers = producerFoldersIn(folder, depthMax);
      if (producers.length === 0)
        throw new AdminError(`${folder} has no folder of a producer, such as journal/edge-0/01…`);
      const { db } = context.parts();
      for (const producer of producers) {
        const lines = await salvage(db, producer, into);
        for (const line of lines) context.print(line);
      }
    });
}

function producerFoldersIn(folder: string, depth: number): string[] {
  if (producersOf([basename(folder)]).length > 0) return [folder];
  const folders = depth === 0 ? [] : foldersIn(nodeDisk, folder).sort();
  return folders.flatMap((name) => producerFoldersIn(join(folder, name), depth - 1));
}

interface FoundLane {
  readonly kind: string;
  readonly partition: number;
  readonly found: FrameSet;
  first: number;
  readonly stored: FrameSet;
  newFrames: number;
  newRecords: number;
}

async function salvage(db: Pick<Postgres, 'query'>, folder: string, into: string | undefined): Promise<string[]> {
  const producerId = basename(folder);
  const marks = await marksOf(db, producerId);
  const lanes = new Map<string, FoundLane>();
  const target = into === undefined ? undefined : new SalvagedJournal(into, producerId);
  let [damaged, torn] = [0, 0];
  try {
    for (const name of readdirSync(folder).sort()) {
      if (!segmentShape.test(name)) continue;
      const reader = new SegmentReader(nodeDisk, join(folder, name), producerId);
      for (let read = reader.next(); ; read = reader.next()) {
        if (read.state === 'damaged') damaged += read.place.bytes;
        if (read.state === 'end') torn += read.tail.bytes;
        if (read.state === 'end') break;
        if (read.state === 'frame' && isNew(read.header, lanes, marks)) target?.append(read.bytes);
      }
      reader.close();
    }
    await target?.finish();
  } finally {
    target?.discard();
  }
  return [
    `${folder}: ${damaged} bytes in damaged places, ${torn} bytes of incomplete frames at the ends of files`,
    ...[...lanes.values()].map(lineOf),
    ...(target?.isFinished
      ? [`  What is not stored was added to ${target.folder}; its publisher hands it to the log.`]
      : []),
  ];
}

/** Notes a frame. @returns whether it is neither stored nor noted before. */
function isNew(header: FrameHeader, lanes: Map<string, FoundLane>, marks: ReadonlyMap<string, FrameSet>): boolean {
  const { kind, partition, frame_no, records } = header;
  const key = laneKeyOf(header);
  let lane = lanes.get(key);
  if (lane === undefined) {
    const stored = marks.get(key) ?? new FrameSet();
    lane = { kind, partition, found: new FrameSet(), first: frame_no, stored, newFrames: 0, newRecords: 0 };
    lanes.set(key, lane);
  }
  if (lane.found.has(frame_no)) return false;
  lane.found.add(frame_no);
  lane.first = Math.min(lane.first, frame_no);
  if (lane.stored.has(frame_no)) return false;
  lane.newFrames++;
  lane.newRecords += records;
  return true;
}

function lineOf({ kind, partition, found, first, newFrames, newRecords }: FoundLane): string {
  const missing = found.holesIn(first, found.top).map(([from, to]) => (from === to ? from : `${from} to ${to}`));
  const without = missing.length === 0 ? '' : `, without ${missing.slice(0, 20).join(', ')}`;
  return `  ${kind}s of partition ${partition}: frames ${first} to ${found.top}${without}; not stored: ${newFrames} frames, ${newRecords} records`;
}

async function marksOf(db: Pick<Postgres, 'query'>, producerId: string): Promise<Map<string, FrameSet>> {
  const rows = await db.query<{ kind: FrameHeader['kind']; partition: number; mark: number; ahead: unknown }>(
    'SELECT kind, partition, mark, ahead FROM ingest.mark WHERE producer_id = $1',
    [producerId],
  );
  return new Map(
    rows.map(({ kind, partition, mark, ahead }) => {
      const ranges: FrameRange[] = rangesOf(ahead) ?? [];
      return [`${producerId}:${kind}:${partition}`, new FrameSet(mark, ranges)];
    }),
  );
}

/** A producer's folder in a slot of its own, which the publisher finds once it is complete. */
class SalvagedJournal {
  readonly folder: string;
  isFinished = false;
  readonly #draft: string;
  readonly #owner: { readonly uid: number; readonly gid: number };
  readonly #segment: Segment;
  #isClosed = false;

  constructor(journal: string, producerId: string) {
    const slots = foldersIn(nodeDisk, journal);
    const known = slots.find((slot) => existsSync(join(journal, slot, producerId)));
    if (known !== undefined)
      throw new AdminError(`${join(journal, known)} has this producer already: its publisher reads what is intact.`);
    if (basename(journal) !== 'journal' || !existsSync(journal))
      throw new AdminError(`${journal} is not the folder journal of a DATA_DIR.`);
    this.#owner = statSync(journal);
    this.folder = join(journal, salvagedSlot, producerId);
    this.#draft = join(journal, salvagedSlot, `.${producerId}`);
    rmSync(this.#draft, { recursive: true, force: true });
    mkdirSync(this.#draft, { recursive: true });
    // Not the first one: that the journal lacks earlier frames is no loss.
    this.#segment = Segment.create(nodeDisk, this.#draft, 2);
  }

  append(bytes: Buffer): void {
    this.#segment.append(bytes);
  }

  async finish(): Promise<void> {
    await this.#segment.sync();
    if (this.#segment.bytes === 0) return;
    const slot = join(this.folder, '..');
    const files = readdirSync(this.#draft).map((name) => join(this.#draft, name));
    for (const path of [slot, this.#draft, ...files]) chownSync(path, this.#owner.uid, this.#owner.gid);
    renameSync(this.#draft, this.folder);
    nodeDisk.syncFolder(slot);
    this.isFinished = true;
  }

  /** Closes the file; removes it unless it was finished. */
  discard(): void {
    if (!this.#isClosed) this.#segment.close();
    this.#isClosed = true;
    rmSync(this.#draft, { recursive: true, force: true });
  }
}
