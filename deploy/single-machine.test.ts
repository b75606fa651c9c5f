/** The files of deploy/single match the code. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadConfig } from '#common/process/config.ts';
import { unknownSettings } from '#common/process/unknown-settings.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';

const lines = readFileSync('deploy/single/signpost.env', 'utf8').split('\n');
const given = Object.fromEntries(
  lines.filter((line) => /^[A-Z]/.test(line)).map((line) => line.split(/=(.*)/s).slice(0, 2)),
);

test('every line of signpost.env is a setting with a valid value', () => {
  const config = loadConfig([], given);
  expect(Object.keys(given).filter((name) => !(name in config))).toEqual([]);
  expect(unknownSettings(given)).toEqual([]);
});

test.for(['signpost.service', 'signpost-backup.service', 'signpost-backup.timer'])(
  'systemd accepts %s',
  (unit, context) => {
    const program = findProgram(['systemd-analyze']);
    skipWithout(program !== undefined, 'systemd-analyze', context);
    const report = execFileSync(program ?? '', ['verify', `deploy/single/${unit}`], {
      encoding: 'utf8',
      stdio: 'pipe',
    });
    expect(report).toBe('');
  },
);
