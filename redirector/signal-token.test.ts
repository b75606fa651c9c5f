import { expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { BEACON_AGE_MAX_MS, SignalTokens } from './signal-token.ts';

const tokens = new SignalTokens('a key for tests that is long enough');
const madeMs = 1_800_000_000_000;
const clickId = newId('clk', madeMs);
const token = tokens.sign(clickId, 6);

test('a token is valid for its click for some minutes, on every edge with the same key', () => {
  const other = new SignalTokens('a key for tests that is long enough');
  for (const atMs of [madeMs, madeMs + BEACON_AGE_MAX_MS, madeMs - 4_000]) {
    expect(other.verify(token, atMs)).toEqual({ click_id: clickId, hours: 6 });
  }
  for (const atMs of [madeMs + BEACON_AGE_MAX_MS + 1, madeMs - 6_000]) expect(tokens.verify(token, atMs)).toBeNull();
});

test.each([
  ['of another key', new SignalTokens('another key of a test, long enough').sign(clickId, 6)],
  ['for another click', token.replace(clickId, newId('clk', madeMs))],
  ['for more hours', token.replace('.6.', '.72.')],
  ['without its signature', token.slice(0, -17)],
  ['cut by one character', token.slice(0, -1)],
  ['with text after it', `${token}a`],
  ['for an invalid click id', token.replace('clk_', 'lnk_')],
  ['that is empty', ''],
])('a token %s is rejected', (_, forged) => {
  expect(tokens.verify(forged, madeMs)).toBeNull();
});
