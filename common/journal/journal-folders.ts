/** The journals of a machine as a publisher finds them: those of living processes and of dead ones. */
import { join } from 'node:path';
import { isId, timeOfId } from '#common/ids.ts';
import { ProducerReader } from '#publisher/producer-reader.ts';
import type { Disk } from './disk.ts';
import type { System } from './system.ts';

export class Producer {
  readonly reader: ProducerReader;
  /** Added to message ids once the sink has passed over a frame. */
  attempt = 0;
  /** Why its journal can't be read on, if so. */
  damage = '';

  constructor(reader: ProducerReader) {
    this.reader = reader;
  }
}

/** A holder whose lock was deleted puts it back within seconds, so a slot without one for so long has no holder. */
const lockMissingMs = 60_000;

/** Since when slots are without a lock, by their folder. */
export type MissingLocks = Map<string, number>;

/** Finds new producers and segments, and learns which producers are dead. */
export async function scanJournals(
  { disk, locks, time }: System,
  root: string,
  producers: Map<string, Producer>,
  missing: MissingLocks,
): Promise<void> {
  for (const slot of foldersIn(disk, root)) {
    const slotFolder = join(root, slot);
    // The lock first: what is on disk after it was found free is all that there will be.
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
      producer.reader.scan();
      producer.reader.isAlive = isHeld && producerId === newest;
    }
  }
}

/**
 * The name of a new producer in a slot. It sorts behind all that are there and behind the one before, also when the clock went
 * back in between: of a slot that is held the last one is the one that lives.
 * @throws what the file system says when the slot can't be read.
 */
export function newProducerId(system: System, slotFolder: string, before: string): string {
  const names = producersOf([...system.disk.folders(slotFolder), before]);
  const last = names.at(-1);
  const ms = Math.max(system.time.now(), last === undefined ? 0 : timeOfId(`evt_${last}`) + 1);
  return system.producerId(ms);
}

/** The names that are valid producer ids, oldest first. Other folders are not ours. */
function producersOf(names: readonly string[]): string[] {
  return names.filter((name) => isId('evt', `evt_${name}`)).sort();
}

/** Names of the folders in a folder; none if it is not there yet. */
function foldersIn(disk: Disk, folder: string): string[] {
  try {
    return disk.folders(folder);
  } catch {
    return [];
  }
}
