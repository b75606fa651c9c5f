/**
 * Stops merges while the disk is nearly full. A merge that runs out of space leaves a part of empty files that the
 * engine considers complete, and then deletes the rows of the merged parts. Inserts need no guard: they fail and leave
 * nothing behind.
 *
 *   merging ──less free than the margin──▶ stopped ──half as much again is free──▶ merging
 */
import { statfsSync } from 'node:fs';
import { SECOND_MS } from '#common/durations.ts';

/** Space for everything else that writes to the disk during a merge; the engine itself reserves space for the merge. */
const MARGIN_BYTES = 1_073_741_824;
/** Fraction of the disk, if that is less, so that merges also run on a small disk. */
const MARGIN_SHARE = 0.1;
const RESUME_FACTOR = 1.5;
const LOOK_MS = SECOND_MS / 4;

export interface DiskRoom {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

export interface MergeGuardParts {
  readonly room: () => DiskRoom;
  readonly setMerges: (state: 'STOP' | 'START') => Promise<void>;
  readonly log: (line: string) => void;
}

export class MergeGuard {
  readonly #parts: MergeGuardParts;
  #state: 'merging' | 'stopped' = 'merging';
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(parts: MergeGuardParts) {
    this.#parts = parts;
  }

  /** Checks once before it resolves, and then periodically. */
  async start(): Promise<void> {
    await this.look();
    this.#timer = setInterval(() => {
      this.#looking ??= this.look().finally(() => {
        this.#looking = undefined;
      });
    }, LOOK_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** Never rejects. */
  async look(): Promise<void> {
    const { room, setMerges, log } = this.#parts;
    try {
      const { freeBytes, totalBytes } = room();
      const margin = Math.min(MARGIN_BYTES, totalBytes * MARGIN_SHARE);
      const isLow = freeBytes < (this.#state === 'merging' ? margin : margin * RESUME_FACTOR);
      if (this.#state === 'merging' && !isLow) return;
      // Repeated at each check, because tables created in the meantime are not stopped yet.
      await setMerges(isLow ? 'STOP' : 'START');
      const next = isLow ? 'stopped' : 'merging';
      if (next !== this.#state)
        log(`${Math.floor(freeBytes / 1_048_576)} MiB are free: ${isLow ? 'merges stop' : 'merges continue'}`);
      this.#state = next;
    } catch (error) {
      log(`the merge guard failed: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

export function roomOf(folder: string): DiskRoom {
  const { bavail, blocks, bsize } = statfsSync(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}
