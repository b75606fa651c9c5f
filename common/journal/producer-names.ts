/** How the folders of producers are named, of which each is the journal of one process. */
import { isId, timeOfId } from '#common/ids.ts';
import type { Disk } from './disk.ts';
import type { System } from './system.ts';

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
export function producersOf(names: readonly string[]): string[] {
  return names.filter((name) => isId('evt', `evt_${name}`)).sort();
}

/** Names of the folders in a folder; none if it is not there yet. */
export function foldersIn(disk: Disk, folder: string): string[] {
  try {
    return disk.folders(folder);
  } catch {
    return [];
  }
}
