import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { logTail } from './child.ts';

test('the end of a log includes the message of an error and omits its stack trace', () => {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-child-'));
  const file = join(folder, 'x.log');
  const trace = Array.from({ length: 20 }, (_, n) => `    at place${n} (/a/b.ts:${n}:1)`);
  writeFileSync(file, ['{"msg":"started"}', 'Error: no key', ...trace, '', 'Node.js v20.20.2', ''].join('\n'));
  expect(logTail(file, 0)).toBe('{"msg":"started"}\n  Error: no key');
  expect(logTail(file, 0, 1)).toBe('Error: no key');
  // Nothing of the previous run, unless the log was truncated since.
  expect(logTail(file, '{"msg":"started"}\n'.length)).toBe('Error: no key');
  expect(logTail(file, 1_000_000)).toBe('{"msg":"started"}\n  Error: no key');
  rmSync(folder, { recursive: true });
});

test('the reason why a process exited is shown, however many parts it stopped afterwards', () => {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-child-'));
  const file = join(folder, 'x.log');
  const stopped = Array.from({ length: 12 }, (_, n) => `{"part":"${n}","msg":"stopped"}`);
  writeFileSync(file, ['{"msg":"could not start: port 1 is in use"}', ...stopped, ''].join('\n'));
  expect(logTail(file, 0)).toBe('{"msg":"could not start: port 1 is in use"}');
  rmSync(folder, { recursive: true });
});
