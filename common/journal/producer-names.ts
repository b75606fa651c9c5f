/** Names of producers' folders, each of which is the journal of one process. */
import { isId, timeOfId } from '#common/ids.ts';
import { type Disk, isAbsent } from './disk.ts';
import type { System } from './system.ts';

/**
 * The name of a new producer in a slot. It sorts after all existing ones and after the previous one, even if the clock
 * went back in between: in a slot that is in use, the last producer is the live one. @throws the file system's error if
 * the slot can't be read.
 */
export function newProducerId(system: System, slotFolder: string, before: string): string {
  const names = producersOf([...system.disk.folders(slotFolder), before]);
  const last = names.at(-1);
  const ms = Math.max(system.time.now(), last === undefined ? 0 : timeOfId(`evt_${last}`) + 1);
  return system.producerId(ms);
}

/** The names that are valid producer ids, oldest first. Other folders are ignored. */
export function producersOf(names: readonly string[]): string[] {
  return names.filter((name) => isId('evt', `evt_${name}`)).sort();
}

/** Names of the folders in a folder; none if it does not exist yet. @throws the file system's error if it can't be read. */
export function foldersIn(disk: Disk, folder: string): string[] {
  try {
    return disk.folders(folder);
  } catch (error) {
    if (isAbsent(error)) return [];
    throw error;
  }
}
