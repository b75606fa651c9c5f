/** Compressed files of lines, written and read in bounded memory. */
import { once } from 'node:events';
import { createReadStream, createWriteStream, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { StartupError } from '#deploy/local/child.ts';

/** @returns how many lines were written. */
export async function writeLines(file: string, batches: AsyncIterable<readonly string[]>): Promise<number> {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const gzip = createGzip({ level: 1 });
  const written = pipeline(gzip, createWriteStream(file, { flags: 'wx', mode: 0o600 }));
  // Reported below, unless the source fails first.
  written.catch(() => undefined);
  let lines = 0;
  try {
    for await (const batch of batches) {
      lines += batch.length;
      if (batch.length > 0 && !gzip.write(`${batch.join('\n')}\n`)) await Promise.race([once(gzip, 'drain'), written]);
    }
    gzip.end();
    await written;
  } finally {
    gzip.destroy();
  }
  return lines;
}

/** The lines of a file, in batches of about this many characters. @throws StartupError if the file is damaged. */
export async function* readLines(file: string, charactersMax: number): AsyncGenerator<string[]> {
  let batch: string[] = [];
  let characters = 0;
  let rest = '';
  for await (const chunk of textOf(file)) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      batch.push(line);
      characters += line.length;
      if (characters < charactersMax) continue;
      yield batch;
      [batch, characters] = [[], 0];
    }
  }
  if (batch.length > 0) yield batch;
}

async function* textOf(file: string): AsyncGenerator<string> {
  const text = createGunzip().setEncoding('utf8');
  const read = pipeline(createReadStream(file), text);
  read.catch(() => undefined);
  try {
    yield* text as AsyncIterable<string>;
    await read;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartupError(`${file} is damaged (${reason}): nothing was imported. Copy it again, or export again.`);
  }
}
