/** What the journal and publisher need from the machine. A simulation injects another one. */
import { newId } from '#common/ids.ts';
import { systemTime, type Time } from '#common/time.ts';
import { type Disk, nodeDisk } from './disk.ts';
import { type SlotLocks, socketLocks } from './slot-lock.ts';

export interface System {
  readonly time: Time;
  readonly disk: Disk;
  readonly locks: SlotLocks;
  /** A new name for a producer: 26 characters that sort by this time. */
  producerId(ms: number): string;
}

export const nodeSystem: System = {
  time: systemTime,
  disk: nodeDisk,
  locks: socketLocks,
  producerId: (ms) => newId('evt', ms).slice(4),
};
