import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isCopiedFolder, markOriginal, markRestored } from './copied-folder.ts';

test('a copied and a restored DATA_DIR are recognized; a new, a restarted and a moved one are not copies', () => {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-copied-'));
  try {
    const [original, copy, moved] = ['original', 'copy', 'moved'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    expect(isCopiedFolder(original)).toBe(false);
    markOriginal(original);
    markOriginal(original);
    expect(isCopiedFolder(original)).toBe(false);
    cpSync(original, copy, { recursive: true });
    expect(isCopiedFolder(copy)).toBe(true);
    markOriginal(copy);
    expect(isCopiedFolder(copy)).toBe(false);
    renameSync(original, moved);
    expect(isCopiedFolder(moved)).toBe(false);
    markRestored(moved);
    expect(isCopiedFolder(moved)).toBe(true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
