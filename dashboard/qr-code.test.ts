import { create } from 'qrcode';
import { expect, test } from 'vitest';
import { corrections, fitting, plainDesign } from './qr-code.ts';

test.each([
  ['a short text', 100, 'H', '', 'H', ''],
  ['a text for the highest correction', 1_273, 'H', 'logo', 'H', 'logo'],
  ['a text that is too long for a logo', 1_274, 'H', 'logo', 'Q', ''],
  ['a text for the medium one', 2_331, 'H', '', 'M', ''],
  ['the longest text', 2_953, 'Q', 'logo', 'L', ''],
] as const)('%s gets the most correction that it leaves room for', (_, bytes, correction, logo, expected, kept) => {
  const text = 'a'.repeat(bytes);
  const fit = fitting(text, { ...plainDesign, correction, logo });
  expect([fit.correction, fit.logo]).toEqual([expected, kept]);
  expect(create(text, { errorCorrectionLevel: fit.correction }).modules.size).toBeGreaterThan(0);
  const next = corrections[corrections.indexOf(fit.correction) + 1];
  if (fit.correction !== correction && next) expect(() => create(text, { errorCorrectionLevel: next })).toThrow();
});
