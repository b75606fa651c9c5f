/** Finds the journals of a machine for its publisher: those of live processes and of dead ones. */
import { join } from 'node:path';
import { foldersIn, producersOf } from '#common/journal/producer-names.ts';
import type { System } from '#common/journal/system.ts';
import { ProducerReader } from './producer-reader.ts';

export class Producer {
  readonly reader: ProducerReader;
  /** Added to message ids once the sink has skipped a frame. */
  attempt = 0;
  /** The damage that was reported; empty if there is none. */
  damage = '';

  constructor(reader: ProducerReader) {
    this.reader = reader;
  }
}

/** A holder whose lock was deleted restores it within seconds, so a slot without one for this long has no holder. */
const lockMissingMs = 60_000;

/** What the scans of a publisher remember. */
export interface ScanState {
  /** By folder of a slot, since when its lock is missing. */
  readonly missing: Map<string, number>;
  /** `elapsed()` when the last scan began; -Infinity before the first. */
  at: number;
  /** Why a folder could not be listed: nothing has changed for its producers then. Empty if all could. */
  fault: string;
  readonly log: (line: string) => void;
}

export function newScanState(log: (line: string) => void): ScanState {
  return { missing: new Map(), at: Number.NEGATIVE_INFINITY, fault: '', log };
}

/** Finds new producers and segments, and determines which producers are dead. */
export async function scanJournals(
  { disk, locks, time }: System,
  root: string,
  producers: Map<string, Producer>,
  last: ScanState,
): Promise<void> {
  const found = new Set<string>();
  const { missing, at: absentAt } = last;
  last.at = time.elapsed();
  let fault = '';
  const listed = (folder: string) => {
    try {
      return foldersIn(disk, folder);
    } catch (error) {
      if (!(error instanceof Error) || !('code' in error)) throw error;
      fault = `${folder} cannot be listed: ${error.message}`;
      return [];
    }
  };
  for (const slot of listed(root)) {
    const slotFolder = join(root, slot);
    // Check the lock first: if it is free, what is on disk after that is complete.
    const state = await locks.stateOf(slotFolder);
    if (state !== 'missing') missing.delete(slotFolder);
    else if (!missing.has(slotFolder)) missing.set(slotFolder, time.elapsed());
    const isMissing = time.elapsed() - (missing.get(slotFolder) ?? Number.POSITIVE_INFINITY) >= lockMissingMs;
    const isHeld = state !== 'free' && !isMissing;
    const producerIds = producersOf(listed(slotFolder));
    const newest = producerIds.at(-1);
    for (const producerId of producerIds) {
      let producer = producers.get(producerId);
      if (producer === undefined) {
        producer = new Producer(new ProducerReader(disk, join(slotFolder, producerId), producerId));
        producers.set(producerId, producer);
      }
      found.add(producerId);
      const isAlive = isHeld && producerId === newest;
      // A dead journal may have been brought here from another machine: its files are older than their appearance.
      producer.reader.scan(isAlive ? absentAt : Number.NEGATIVE_INFINITY);
      producer.reader.isAlive = isAlive;
    }
  }
  if (fault !== '' && last.fault === '') last.log(fault);
  last.fault = fault;
  if (fault !== '') return;
  for (const [producerId, { reader }] of producers) {
    if (found.has(producerId)) continue;
    // Someone deleted its folder.
    reader.isAlive = false;
    reader.scan();
  }
}
