import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { decodeMatch } from '#common/log/match-record.ts';
import { type RecordKind, recordKinds } from '#common/log/record.ts';
import { decodeSdkRecords } from './attribution/attribution.ts';
import { decodeClick } from './record-decoder.ts';

/** One file for each version that wrote to the log. Lines are only added, never changed or removed. */
const folder = join(import.meta.dirname, '..', 'common', 'log', 'golden');

interface GoldenRecord {
  readonly kind: RecordKind;
  /** The line as it was written to the log. */
  readonly line: string;
  /** The record that this version read from it; a later version may read more. */
  readonly record: object;
}

const golden = readdirSync(folder).flatMap((file) =>
  readFileSync(join(folder, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map((text) => ({ file, ...(JSON.parse(text) as GoldenRecord) })),
);
const origin = { producer_id: 'p', frame_no: 1, idx: 0 };

test.each(golden)('a golden $kind of $file still decodes to the same record', ({ kind, line, record }) => {
  const read =
    kind === 'click'
      ? decodeClick(line)
      : kind === 'match'
        ? decodeMatch(line)
        : decodeSdkRecords(kind, line, origin).map((one) => ('record' in one ? one.record : one));
  expect(read).toMatchObject(record);
});

test('every kind of record has a golden record', () => {
  expect(new Set(golden.map(({ kind }) => kind))).toEqual(new Set(recordKinds));
});
