import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { VectorFile } from './testing/vector-case.ts';
import { VectorRun } from './testing/vector-run.ts';

const folder = fileURLToPath(new URL('../vectors/', import.meta.url));
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));

test('there are vectors', () => expect(files.length).toBeGreaterThan(5));

for (const file of files) {
  const { cases } = JSON.parse(readFileSync(folder + file, 'utf8')) as VectorFile;
  describe(file, () => {
    for (const one of cases) test(one.title, () => new VectorRun(one).run());
  });
}
