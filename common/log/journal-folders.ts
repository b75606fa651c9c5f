/** The journals of a machine as a publisher finds them: those of living processes and of dead ones. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
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
    const producerIds = folders(slotFolder).sort();
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

/** Names of the folders in a folder; none if it is not there yet. */
function folders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch {
    return [];
  }
}
