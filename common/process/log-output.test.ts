import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { expect, test } from 'vitest';
import { logOutput } from './log-output.ts';

function errorWith(code: string): Error {
  return Object.assign(new Error(code), { code });
}

test('lines that cannot be written are dropped and counted, and later ones are whole lines again', () => {
  let room = 8;
  let text = '';
  const output = logOutput((bytes, from) => {
    const count = Math.min(room, bytes.length - from);
    if (count === 0) throw errorWith('ENOSPC');
    room -= count;
    text += Buffer.from(bytes.subarray(from, from + count)).toString();
    return count;
  });
  for (const line of ['one\n', 'two two\n', 'three\n']) output.write(line);
  expect([text, output.dropped]).toEqual(['one\ntwo ', 2]);
  room = 100;
  output.write('four\n');
  output.write('five\n');
  expect([text, output.dropped]).toEqual(['one\ntwo \nfour\nfive\n', 2]);
});

test('a pipe that is full for a moment gets its line, and one that stays full costs a bounded time', () => {
  let busy = 3;
  let text = '';
  const output = logOutput((bytes, from) => {
    if (busy-- > 0) throw errorWith('EAGAIN');
    text += Buffer.from(bytes.subarray(from)).toString();
    return bytes.length - from;
  });
  output.write('one\n');
  expect([text, output.dropped]).toEqual(['one\n', 0]);
  busy = Number.POSITIVE_INFINITY;
  const begun = performance.now();
  output.write('two\n');
  expect(output.dropped).toBe(1);
  expect(performance.now() - begun).toBeLessThan(2_000);
});

test.runIf(process.platform === 'linux')(
  'a process whose log is on a full disk goes on',
  { tags: ['slow'] },
  async () => {
    const telemetry = import.meta.resolve('./telemetry.ts');
    const code = `import { createLog } from ${JSON.stringify(telemetry)};
    const log = createLog('test', { LOG_LEVEL: 'info', INSTANCE: '' });
    process.on('uncaughtException', () => process.exit(3));
    for (let n = 0; n < 100; n++) log.info({ n }, 'a line');
    setTimeout(() => { log.fatal('the end'); log.flush(); process.exit(0); }, 50);`;
    const args = ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', code];
    const child = spawn(process.execPath, args, { stdio: ['ignore', openSync('/dev/full', 'w'), 'inherit'] });
    const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
    expect(await once(child, 'exit')).toEqual([0, null]);
    clearTimeout(timer);
  },
);
