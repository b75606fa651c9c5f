import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { DAY_MS } from '#common/durations.ts';
import { certificate } from './made-once.ts';

afterEach(() => vi.useRealTimers());

test.each([
  ['800 days ahead', 800 * DAY_MS],
  ['at 2023', Date.UTC(2023, 2, 1) - Date.now()],
])(
  'a certificate that was made by a clock %s is replaced once the clock is right, and then kept',
  async (_, aheadMs) => {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-certificate-'));
    const nowMs = Date.now();
    const serialOf = async () => {
      const { certFile } = await certificate(folder, 'links.example');
      return new X509Certificate(readFileSync(certFile));
    };
    try {
      vi.useFakeTimers({ toFake: ['Date'], now: nowMs + aheadMs });
      const wrong = await serialOf();
      expect((await serialOf()).serialNumber).toBe(wrong.serialNumber);
      vi.setSystemTime(nowMs);
      const right = await serialOf();
      expect(right.serialNumber).not.toBe(wrong.serialNumber);
      expect(Date.parse(right.validFrom)).toBeLessThanOrEqual(nowMs);
      expect((await serialOf()).serialNumber).toBe(right.serialNumber);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
