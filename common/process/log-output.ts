/**
 * Writes the lines of a log. A line that cannot be written, because the disk is full or the reader of a pipe does not
 * read, is dropped and counted: the default of pino ends the process then, after retrying in its only thread for as
 * long as the disk is full.
 */
import { writeSync } from 'node:fs';

const retryMs = 10;
const retriesMax = 10;

export interface LogOutput {
  write(line: string): void;
  /** Lines not written since the start. */
  readonly dropped: number;
}

type Write = (bytes: Uint8Array, from: number) => number;

/** @param write writes some of the bytes to standard output, and returns how many. @throws like writeSync */
export function logOutput(write: Write = (bytes, from) => writeSync(1, bytes, from)): LogOutput {
  let dropped = 0;
  /** Whether the last line was written only in part: the next one must not continue it. */
  let isCut = false;
  const writeAll = (bytes: Uint8Array): boolean => {
    let written = 0;
    for (let retries = 0; written < bytes.length; ) {
      try {
        written += write(bytes, written);
      } catch (error) {
        const isBusy = error instanceof Error && 'code' in error && error.code === 'EAGAIN';
        if (!isBusy || ++retries > retriesMax) {
          isCut ||= written > 0;
          return false;
        }
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
      }
    }
    isCut = false;
    return true;
  };
  return {
    write(line) {
      if (!writeAll(Buffer.from(isCut ? `\n${line}` : line))) dropped++;
    },
    get dropped() {
      return dropped;
    },
  };
}
