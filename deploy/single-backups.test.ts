/** Which backups deploy/single/backup keeps, with stand-ins for the clock and for `admin`. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemEnvironment } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'signpost-backups-'));
  folder = join(root, 'backups');
  for (const name of ['backups', 'bin']) mkdirSync(join(root, name));
  const admin = '#!/bin/sh\nif [ "$4" = backup ]; then mkdir "$5" && : >"$5/backup.json"; fi\n';
  writeFileSync(join(root, 'bin/node'), admin, { mode: 0o755 });
});
afterEach(() => rmSync(root, { recursive: true }));

const backups = () => readdirSync(folder).filter((name) => name.startsWith('signpost-'));

/** The backup of a night at which the clock shows this time. */
function night(time: string): string {
  const date = `#!/bin/sh\ncase "$*" in *%u*) echo 1 ;; *) echo ${time} ;; esac\n`;
  writeFileSync(join(root, 'bin/date'), date, { mode: 0o755 });
  const env = { ...systemEnvironment(), PATH: `${join(root, 'bin')}:${process.env['PATH'] ?? ''}` };
  execFileSync('sh', [join(packageRoot(), 'deploy/single/backup'), folder], { env });
  return `signpost-${time}`;
}

const day = (year: number, n: number) => `${year}-06-${String(n).padStart(2, '0')}T040000Z`;

test('the 14 backups that were made last are kept, whatever the clock showed', { timeout: 120_000 }, () => {
  for (let n = 1; n <= 14; n++) night(day(2026, n));
  const past = night(day(2023, 1));
  expect(existsSync(join(folder, past))).toBe(true);
  expect(backups()).not.toContain(`signpost-${day(2026, 1)}`);
  for (let n = 1; n <= 14; n++) night(day(2029, n));
  const right = [night(day(2026, 20)), night(day(2026, 21))];
  expect(backups()).toEqual([...right, ...Array.from({ length: 12 }, (_, n) => `signpost-${day(2029, n + 3)}`)]);
});

test('backups of an earlier release are the oldest', () => {
  for (let n = 1; n <= 14; n++) {
    mkdirSync(join(folder, `signpost-${day(2029, n)}`));
    writeFileSync(join(folder, `signpost-${day(2029, n)}`, 'backup.json'), '');
  }
  const made = night(day(2026, 1));
  expect(backups()).toEqual([made, ...Array.from({ length: 13 }, (_, n) => `signpost-${day(2029, n + 2)}`)]);
});
