import { expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { plainMatch } from '#common/testing/match-record.ts';
import { decodeMatch, type MatchCandidate, matchJson } from './match-record.ts';

const now = 1_790_000_000_000;
const place = { organization_id: newId('org', now), app_id: newId('app', now) };
const candidate: MatchCandidate = {
  click_id: newId('clk', now),
  link_id: newId('lnk', now),
  age_ms: 60_000,
  browser: 'Instagram',
  signals: { family: 'ios', os_version: [17, 5] },
  gate: null,
  confidence: 0.5,
  factors: [['ip', 1, 20, 40]],
};
const match = plainMatch(place, { time: now, detail: { candidates: [candidate], candidates_total: 1 } });
const read = (more: object) => decodeMatch(matchJson({ ...match, ...more }));

test('a match is read as it was written, without more of the address than the app stores', () => {
  expect(read({ privacy_mode: 'full_ip' })).toEqual({ ...match, privacy_mode: 'full_ip' });
  expect(read({})).toEqual({ ...match, ip: '203.0.113.0' });
  expect(read({ privacy_mode: 'no_ip' })).toEqual({ ...match, privacy_mode: 'no_ip', ip: '' });
});

test('texts that look like the detail do not affect it', () => {
  const device_id = '"},"detail":{"candidates":[]},"time":1';
  expect(read({ device_id })).toMatchObject({ device_id, detail: match.detail, time: now });
});

test('a detail that is too long loses its least likely candidates', () => {
  const long = { ...candidate, signals: { device_model: 'x'.repeat(3_000) } };
  const record = plainMatch(place, { time: now, detail: { candidates: Array(10).fill(long), candidates_total: 10 } });
  const detail = JSON.parse(record.detail);
  expect(record.detail.length).toBeLessThanOrEqual(16_384);
  expect([detail.candidates.length, detail.candidates_total]).toEqual([5, 10]);
});

test('an invalid match record is rejected with a reason, not an exception', () => {
  expect(read({ time: 1 })).toBe('bad_field');
  expect(read({ confidence: 2 })).toBe('bad_field');
  expect(read({ competing_links: -1 })).toBe('bad_field');
  expect(read({ match_id: 'mat_x' })).toBe('bad_field');
  expect(read({ outcome: 'x'.repeat(33) })).toBe('bad_field');
  expect(read({ device_id: 'a\0' })).toBe('bad_text');
  expect(read({ detail: '{"a":"\\u0000"}' })).toBe('bad_text');
  expect(read({ detail: '7' })).toBe('bad_field');
  expect(decodeMatch('{')).toBe('not_json');
  expect(decodeMatch('7')).toBe('not_an_object');
});
