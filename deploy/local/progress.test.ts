import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { createProgress } from './progress.ts';

test('a process that prints progress continues when the reader of its output is gone', async () => {
  const code = `import { createProgress } from ${JSON.stringify(join(import.meta.dirname, 'progress.ts'))};
    const progress = createProgress(process.stdout);
    progress.note('first');
    process.stdin.on('data', () => progress.note('to nobody'));
    process.stdin.on('end', () => { progress.note('to nobody'); process.exitCode = 7; });`;
  const speaker = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', code], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const exited = once(speaker, 'close');
  let faults = '';
  speaker.stderr.setEncoding('utf8').on('data', (text: string) => {
    faults += text;
  });
  expect(String((await once(speaker.stdout, 'data'))[0])).toBe('* first\n');
  speaker.stdout.destroy();
  await once(speaker.stdout, 'close');
  speaker.stdin.write('go on');
  speaker.stdin.end();
  expect(await exited).toEqual([7, null]);
  expect(faults).toBe('');
});

test('nothing more is written to an output that failed, whether it throws or emits an error', () => {
  let writes = 0;
  const full = Object.assign(new Writable(), {
    write: () => {
      writes++;
      throw new Error('ENOSPC');
    },
  });
  const progress = createProgress(full);
  progress.note('first');
  progress.fault('second');
  expect(writes).toBe(1);

  let lines = 0;
  const closed = new Writable({
    write(_line, _encoding, done) {
      lines++;
      done();
    },
  });
  const other = createProgress(closed);
  closed.emit('error', new Error('EPIPE'));
  other.note('first');
  expect(lines).toBe(0);
});
