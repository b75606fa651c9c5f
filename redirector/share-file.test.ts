import {
  appendFileSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { leftOf, ShareFile, shareFileLimits } from './share-file.ts';

let folder: string;
let path: string;
let files: ShareFile[];
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
function open(bootId = 'boot-1'): ShareFile {
  const file = ShareFile.open({ path, bootId });
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
])('no share may be used %s, and a new holder begins', (_, reopen) => {
  const first = open();
  granted(first, 'lnk_a', 10);
  use(first, 'lnk_a');
  const second = reopen();
  expect(left(second)).toEqual([]);
  expect(second.holder).not.toBe(first.holder);
  granted(second, 'lnk_a', 3);
  const third = open(readFileSync(path, 'utf8').split(' ')[2]);
  expect([left(third), third.holder]).toEqual([[['lnk_a', 3]], second.holder]);
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

test('a forgotten share leaves the file with the next rewrite, and a full file takes no other share', () => {
  const first = open();
  for (let n = 0; n < shareFileLimits.sharesMax; n++) granted(first, `lnk_${n}`, 1);
  expect(granted(first, 'lnk_more', 1)).toBeNull();
  first.forget('lnk_0');
  expect(granted(first, 'lnk_more', 1)).not.toBeNull();
  expect(open().shares.size).toBe(shareFileLimits.sharesMax + 1);
  first.close();
});

test('a file of an earlier version, with previous holders and days, proves what its last holder has left', () => {
  const first = open();
  granted(first, 'lnk_a', 10);
  const [header = ''] = readFileSync(path, 'utf8').split('\n');
  const lines = ['h old', 's lnk_a 7 0 7 9 20000', 'h last', 's lnk_a 5 1 1 9 20001', 'u lnk_a', ''];
  writeFileSync(path, `${header}\n${lines.join('\n')}`, { flag: 'r+' });
  truncateSync(path, header.length + 1 + lines.join('\n').length);
  const second = open();
  expect([second.holder, left(second)]).toEqual(['last', [['lnk_a', 2]]]);
});
