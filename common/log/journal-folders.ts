/** The journals of a machine as a publisher finds them: those of living processes and of dead ones. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isId, newId, timeOfId } from '#common/ids.ts';
import { ProducerReader } from './producer-reader.ts';
import { isFolderHeld } from './slot-lock.ts';

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

/** Finds new producers and segments, and learns which producers are dead. */
export async function scanJournals(root: string, producers: Map<string, Producer>): Promise<void> {
  for (const slot of folders(root)) {
    const slotFolder = join(root, slot);
    // The lock first: what is on disk after it was found free is all that there will be.
    const isHeld = await isFolderHeld(slotFolder);
    const producerIds = producersOf(folders(slotFolder));
    const newest = producerIds.at(-1);
    for (const producerId of producerIds) {
      let producer = producers.get(producerId);
      if (producer === undefined) {
        producer = new Producer(new ProducerReader(join(slotFolder, producerId), producerId));
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
export function newProducerId(slotFolder: string, before: string): string {
  const names = producersOf([...foldersIn(slotFolder), before]);
  const last = names.at(-1);
  const ms = Math.max(Date.now(), last === undefined ? 0 : timeOfId(`evt_${last}`) + 1);
  return newId('evt', ms).slice(4);
}

/** Those of the names that a producer can have, oldest first. A folder of another name is somebody else's. */
function producersOf(names: readonly string[]): string[] {
  return names.filter((name) => isId('evt', `evt_${name}`)).sort();
}

/** Names of the folders in a folder; none if it is not there yet. */
function folders(folder: string): string[] {
  try {
    return foldersIn(folder);
  } catch {
    return [];
  }
}

function foldersIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
}
