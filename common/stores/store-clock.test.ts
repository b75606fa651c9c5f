import { expect, test } from 'vitest';
import { DAY_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import { StoreClock } from './store-clock.ts';

const storeMs = Date.UTC(2026, 10, 27);

/** A machine whose clock differs from the store's, and whose store answers after `answerMs`. */
class Machine {
  wallMs: number;
  elapsedMs = 5_000;
  answerMs = 0;
  isStoreDown = false;
  storeAheadMs = 0;
  timers: { ms: number; callback: () => void }[] = [];
  readonly clock = new StoreClock({
    read: async () => {
      if (this.isStoreDown) throw new Error('down');
      this.pass(this.answerMs / 2);
      const read = this.storeMs;
      this.pass(this.answerMs / 2);
      return read;
    },
    time: {
      now: () => this.wallMs,
      elapsed: () => this.elapsedMs,
      after: (ms, callback) => {
        const timer = { ms, callback };
        this.timers.push(timer);
        return timer;
      },
      clear: (timer) => {
        this.timers = this.timers.filter((other) => other !== timer);
      },
    },
  });

  constructor(aheadMs: number) {
    this.wallMs = storeMs + aheadMs;
  }

  get storeMs(): number {
    return storeMs + this.elapsedMs - 5_000 + this.storeAheadMs;
  }

  pass(ms: number): void {
    this.elapsedMs += ms;
    this.wallMs += ms;
  }

  async nextReading(): Promise<void> {
    const timer = this.timers.shift();
    if (timer === undefined) throw new Error('no reading is planned');
    this.pass(timer.ms);
    timer.callback();
    await new Promise((done) => setImmediate(done));
  }
}

test.each([-3 * 365 * DAY_MS, 800 * DAY_MS])(
  'it is the store’s clock, whatever this machine’s says: %d ms',
  async (aheadMs) => {
    const machine = new Machine(aheadMs);
    await machine.clock.start();
    machine.pass(10 * SECOND_MS);
    expect(machine.clock.now()).toBe(machine.storeMs);
    expect(machine.clock.aheadMs).toBe(aheadMs);
  },
);

test('a jump of this machine’s clock does not move it', async () => {
  const machine = new Machine(-DAY_MS);
  await machine.clock.start();
  machine.wallMs += DAY_MS;
  expect(machine.clock.now()).toBe(machine.storeMs);
  expect(machine.clock.aheadMs).toBe(0);
});

test('it follows a jump of the store’s clock within a minute', async () => {
  const machine = new Machine(0);
  await machine.clock.start();
  machine.storeAheadMs = -DAY_MS;
  expect(machine.timers.map(({ ms }) => ms)).toEqual([MINUTE_MS]);
  await machine.nextReading();
  expect(machine.clock.now()).toBe(machine.storeMs);
});

test('it is this machine’s clock until the store answers, which is asked every second', async () => {
  const machine = new Machine(DAY_MS);
  machine.isStoreDown = true;
  await machine.clock.start();
  expect(machine.clock.now()).toBe(machine.wallMs);
  expect(machine.clock.aheadMs).toBe(0);
  machine.isStoreDown = false;
  await machine.nextReading();
  expect(machine.clock.now()).toBe(machine.storeMs);
});

test('while the store is away, time passes since its last answer', async () => {
  const machine = new Machine(DAY_MS);
  await machine.clock.start();
  machine.isStoreDown = true;
  await machine.nextReading();
  machine.pass(DAY_MS);
  expect(machine.clock.now()).toBe(machine.storeMs);
});

test('a slow answer does not move it by less than the answer took', async () => {
  const machine = new Machine(0);
  await machine.clock.start();
  machine.answerMs = 800;
  machine.storeAheadMs = 300;
  await machine.nextReading();
  expect(machine.clock.now()).toBe(machine.storeMs - 300);
  machine.storeAheadMs = 500;
  await machine.nextReading();
  expect(machine.clock.now()).toBe(machine.storeMs);
});

test('no reading follows a stop', async () => {
  const machine = new Machine(0);
  await machine.clock.start();
  machine.clock.stop();
  expect(machine.timers).toEqual([]);
});
