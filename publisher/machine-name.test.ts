/** Tests which name and identity the journals of a machine get and keep. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { machineIdentity } from './machine-name.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'machine-'));
});
afterEach(() => rmSync(root, { recursive: true }));

test('journals keep the name of the machine on which they began, whatever the host is called later', () => {
  expect(machineIdentity(root, '', 'pod-1').name).toBe('pod-1');
  expect(machineIdentity(root, '', 'pod-2').name).toBe('pod-1');
});

test('journals take the configured name, and refuse another one with a sentence that says what to do', () => {
  expect(machineIdentity(root, 'edge-7', 'pod-1').name).toBe('edge-7');
  expect(machineIdentity(root, 'edge-7', 'pod-2').name).toBe('edge-7');
  expect(() => machineIdentity(root, 'edge-8', 'pod-2')).toThrow(
    /belong to the machine edge-7, and MACHINE_NAME is edge-8/,
  );
});

test('journals of two folders are distinguished, also after a restart', () => {
  const other = mkdtempSync(join(tmpdir(), 'machine-'));
  const { holder } = machineIdentity(root, 'edge-7');
  expect(machineIdentity(root, 'edge-7').holder).toBe(holder);
  expect(machineIdentity(other, 'edge-7').holder).not.toBe(holder);
  rmSync(other, { recursive: true });
});
