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

/** By folder of a slot, since when its lock is missing. */
export type MissingLocks = Map<string, number>;

/** Finds new producers and segments, and determines which producers are dead. */
export async function scanJournals(
  { disk, locks, time }: System,
  root: string,
  producers: Map<string, Producer>,
  missing: MissingLocks,
): Promise<void> {
  const found = new Set<string>();
  for (const slot of foldersIn(disk, root)) {
    const slotFolder = join(root, slot);
    // Check the lock first: if it is free, what is on disk after that is complete.
    const state = await locks.stateOf(slotFolder);
    if (state !== 'missing') missing.delete(slotFolder);
    else if (!missing.has(slotFolder)) missing.set(slotFolder, time.elapsed());
    const isMissing = time.elapsed() - (missing.get(slotFolder) ?? Number.POSITIVE_INFINITY) >= lockMissingMs;
    const isHeld = state !== 'free' && !isMissing;
    const producerIds = producersOf(foldersIn(disk, slotFolder));
    const newest = producerIds.at(-1);
    for (const producerId of producerIds) {
      let producer = producers.get(producerId);
      if (producer === undefined) {
        producer = new Producer(new ProducerReader(disk, join(slotFolder, producerId), producerId));
        producers.set(producerId, producer);
      }
      found.add(producerId);
      producer.reader.scan();
      producer.reader.isAlive = isHeld && producerId === newest;
    }
  }
  for (const [producerId, { reader }] of producers) {
    if (found.has(producerId)) continue;
    // Someone deleted its folder.
    reader.isAlive = false;
    reader.scan();
  }
}
