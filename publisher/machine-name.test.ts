import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { machineName } from './machine-name.ts';

test('journals keep the name of the machine on which they began, whatever the host is called later', () => {
  const root = mkdtempSync(join(tmpdir(), 'machine-'));
  expect(machineName(root, 'pod-1')).toBe('pod-1');
  expect(machineName(root, 'pod-2')).toBe('pod-1');
  rmSync(root, { recursive: true });
});
