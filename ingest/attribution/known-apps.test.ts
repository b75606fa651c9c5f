import { expect, test } from 'vitest';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { type AppFacts, defaultFacts, KnownApps } from './known-apps.ts';

function stage() {
  const state = { nowMs: 1_000_000, hours: 24, isDown: false, reads: 0 };
  const read = async (ids: readonly string[]) => {
    state.reads++;
    if (state.isDown) throw new PostgresUnavailable(new Error('down'));
    const facts: AppFacts = { ...defaultFacts, probabilistic_window_hours: state.hours };
    return new Map(ids.filter((id) => id !== 'app_absent').map((id) => [id, facts]));
  };
  const apps = new KnownApps(read, () => state.nowMs);
  const hours = async (how: 'of' | 'lastOf', id = 'app_a') =>
    (await apps[how](new Set([id, 'app_b']))).get(id)?.probabilistic_window_hours;
  return { state, hours };
}

test('an app with a steady stream of clicks gets its changed settings within fifteen seconds, with one query', async () => {
  for (const how of ['of', 'lastOf'] as const) {
    const { state, hours } = stage();
    expect(await hours(how)).toBe(24);
    state.hours = 48;
    for (let second = 1; second < 15; second++) {
      state.nowMs += 1_000;
      expect(await hours(how)).toBe(24);
    }
    state.nowMs += 1_000;
    await hours(how);
    await new Promise((done) => setImmediate(done));
    expect([await hours(how), state.reads]).toEqual([48, 2]);
  }
});

test('an app that Postgres does not have gets the defaults', async () => {
  const { hours } = stage();
  expect(await hours('of', 'app_absent')).toBe(defaultFacts.probabilistic_window_hours);
});

test('without Postgres the last known settings apply, and Postgres is not queried on every call', async () => {
  const { state, hours } = stage();
  await hours('lastOf');
  state.isDown = true;
  state.hours = 48;
  state.nowMs += 60_000;
  expect(await hours('lastOf')).toBe(24);
  await new Promise((done) => setImmediate(done));
  const { reads } = state;
  expect(await hours('lastOf', 'app_new')).toBe(defaultFacts.probabilistic_window_hours);
  expect(state.reads).toBe(reads);
  await expect(hours('of')).rejects.toThrow(PostgresUnavailable);
  state.isDown = false;
  state.nowMs += 15_000;
  await hours('lastOf');
  await new Promise((done) => setImmediate(done));
  expect(await hours('lastOf')).toBe(48);
});
