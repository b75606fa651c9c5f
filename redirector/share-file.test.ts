import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DAY_MS } from '#common/durations.ts';
import { leftOf, type Share, ShareFile, shareFileLimits } from './share-file.ts';

let folder: string;
let path: string;
let files: ShareFile[];
const today = 20_000;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shares-'));
  path = join(folder, 'shares', 'redirector-0.shares');
  files = [];
});
afterEach(() => {
  for (const file of files) file.close();
  rmSync(folder, { recursive: true });
});

/** Opens the file as a killed process leaves it: nothing is closed or flushed. */
function open(bootId = 'boot-1', day = today): ShareFile {
  const file = ShareFile.open({ path, clock: () => day * DAY_MS, bootId });
  files.push(file);
  return file;
}

function use(file: ShareFile, link: string): void {
  const share = file.shares.get(link);
  expect(file.use(link)).toBe(true);
  if (share) share.used++;
}

const granted = (file: ShareFile, link: string, count: number) =>
  file.put(link, { granted: count, returned: 0, used: 0, max: 100 });
const left = (file: ShareFile) => [...file.shares].map(([link, share]) => [link, leftOf(share)]);

test('after a kill, the next process finds every recorded click, and may use the rest', () => {
  const first = open();
  granted(first, 'lnk_a', 10);
  for (let n = 0; n < 4; n++) use(first, 'lnk_a');
  granted(first, 'lnk_b', 2);
  const second = open();
  expect(left(second)).toEqual([
    ['lnk_a', 6],
    ['lnk_b', 2],
  ]);
  expect(second.holder).toBe(first.holder);
});

test.each<[string, () => ShareFile]>([
  ['after a reboot', () => open('boot-2')],
  [
    'in a copy of the file',
    () => {
      copyFileSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
      return open();
    },
  ],
  [
    'in a file with a damaged line',
    () => {
      writeFileSync(path, readFileSync(path, 'utf8').replace('u lnk_a\n', 'u lnk_\0\n'), { flag: 'r+' });
      return open();
    },
  ],
])('the rest of a share counts as used %s, and a new holder begins', (_, reopen) => {
  const first = open();
  granted(first, 'lnk_a', 10);
  use(first, 'lnk_a');
  const second = reopen();
  expect(left(second)).toEqual([]);
  expect(second.holder).not.toBe(first.holder);
  const past = second.past.get(first.holder)?.get('lnk_a') as Share;
  expect([past.granted, leftOf(past)]).toEqual([10, 0]);
  // The next process of this boot still knows both.
  granted(second, 'lnk_a', 3);
  const third = open(readFileSync(path, 'utf8').split(' ')[2]);
  expect([left(third), third.past.has(first.holder)]).toEqual([[['lnk_a', 3]], true]);
});

test('an incomplete line at the end is a click that was not answered, and the next line does not continue it', () => {
  const first = open();
  granted(first, 'lnk_a', 10);
  use(first, 'lnk_a');
  appendFileSync(path, 'u lnk');
  const second = open();
  expect(left(second)).toEqual([['lnk_a', 9]]);
  use(second, 'lnk_a');
  expect(left(open())).toEqual([['lnk_a', 8]]);
});

test('if clicks cannot be recorded, they are refused, and so are grants', () => {
  writeFileSync(join(folder, 'shares'), 'a file where the folder should be');
  const file = open();
  expect([file.ensure(), granted(file, 'lnk_a', 10), file.use('lnk_a'), file.shares.size]).toEqual([
    ...[false, null, false, 0],
  ]);
  expect(file.counters.write_failures).toBe(1);
});

test('the file stays short, however many clicks are recorded', () => {
  const first = open();
  // A long id, so that fewer clicks fill the file.
  const link = `lnk_${'x'.repeat(400)}`;
  granted(first, link, 1_000_000);
  for (let n = 0; n < 15_000; n++) {
    const share = first.shares.get(link);
    if (!first.use(link) || share === undefined) throw new Error('a click could not be noted');
    share.used++;
  }
  expect(first.counters.rewrites).toBeGreaterThan(1);
  expect(readFileSync(path).length).toBeLessThan(shareFileLimits.bytesMax + 100);
  expect(left(open())).toEqual([[link, 985_000]]);
});

test('used-up shares are dropped after some weeks, and open ones never are', () => {
  const first = open();
  granted(first, 'lnk_used', 1);
  use(first, 'lnk_used');
  granted(first, 'lnk_open', 1);
  const soon = open('boot-1', today + shareFileLimits.keptDays);
  expect(left(soon).map(([link]) => link)).toEqual(['lnk_used', 'lnk_open']);
  // A clock that was set back does not drop shares either.
  expect(open('boot-1', 3).shares.size).toBe(2);
  open('boot-1', today + shareFileLimits.keptDays + 1);
  expect(left(open('boot-1', today))).toEqual([['lnk_open', 1]]);
});
