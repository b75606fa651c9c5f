/** Keys rotated in sequence while requests use them, new and old, at a steady rate. */
import { type Received, Wire } from './fuzz/wire.ts';
import type { Stack } from './stack.ts';

const TICK_MS = 5;
/** Old keys that are tried again: the most recent ones, since a cache would hold on to those. */
const OLD_KEYS_TRIED = 4;

export interface RotationResult {
  readonly rotations: number;
  readonly requests: number;
  readonly accepted: number;
  readonly refused: number;
  /** Accepted with a key although they began after the answer to its rotation. */
  readonly acceptedTooLate: number;
  /** Refused with the newest key although they began after it was issued, and ended before the next rotation began. */
  readonly refusedTooEarly: number;
  readonly other: Readonly<Record<string, number>>;
  readonly requestsASecond: number;
}

interface Use {
  readonly key: string;
  readonly beganMs: number;
  readonly endedMs: number;
  readonly status: number | string;
}

interface Life {
  readonly givenOutMs: number;
  rotationBeganMs: number;
  deadMs: number;
}

export async function rotateUnderUse(
  stack: Stack,
  rotations: number,
  requestsASecond: number,
): Promise<RotationResult> {
  const call = await stack.loggedIn();
  const created = await call('/apps', { method: 'POST', body: { name: 'Rotated' } });
  const app = created.json<{ id: string; api_key: string }>();
  const wire = new Wire(stack.apiPort, 32);
  const lives = new Map<string, Life>();
  const keys = [app.api_key];
  const uses: Promise<Use>[] = [];
  const startedMs = performance.now();
  const born = (key: string) =>
    lives.set(key, { givenOutMs: performance.now(), rotationBeganMs: Infinity, deadMs: Infinity });
  born(app.api_key);

  let sent = 0;
  const use = (key: string) => uses.push(track(wire, key));
  const timer = setInterval(() => {
    const due = ((performance.now() - startedMs) / 1000) * requestsASecond;
    for (; sent < due; sent++) {
      const age = sent % 2 === 0 ? 1 : 1 + ((sent >> 1) % OLD_KEYS_TRIED);
      use(keys.at(-age) ?? app.api_key);
    }
  }, TICK_MS);
  try {
    for (let round = 0; round < rotations; round++) {
      const old = keys.at(-1) ?? '';
      const life = lives.get(old);
      if (life) life.rotationBeganMs = performance.now();
      const reply = await call(`/apps/${app.id}/rotate-key`, { method: 'POST' });
      if (reply.status !== 200) throw new Error(`rotation ${round}: ${reply.status} ${reply.text}`);
      if (life) life.deadMs = performance.now();
      const { api_key } = reply.json<{ api_key: string }>();
      born(api_key);
      keys.push(api_key);
      // The moment after the answer is the one that matters most.
      use(old);
      use(api_key);
    }
  } finally {
    clearInterval(timer);
  }
  const seconds = (performance.now() - startedMs) / 1000;
  const done = await Promise.all(uses);
  wire.close();
  return { rotations, requestsASecond: Math.round(done.length / seconds), ...judged(done, lives) };
}

async function track(wire: Wire, key: string): Promise<Use> {
  const body = Buffer.from(JSON.stringify({ events: [{ name: 'rotated', device_id: 'd' }] }));
  const headers = { 'content-type': 'application/json', 'x-api-key': key };
  const beganMs = performance.now();
  const received: Received | string = await wire.send({ method: 'POST', target: '/v1/sdk/events', headers, body });
  return {
    key,
    beganMs,
    endedMs: performance.now(),
    status: typeof received === 'string' ? received : received.status,
  };
}

function judged(uses: readonly Use[], lives: ReadonlyMap<string, Life>) {
  const other: Record<string, number> = {};
  let [accepted, refused, acceptedTooLate, refusedTooEarly] = [0, 0, 0, 0];
  for (const { key, beganMs, endedMs, status } of uses) {
    const life = lives.get(key);
    if (!life) throw new Error('a key that was never issued');
    if (status === 202) {
      accepted++;
      if (beganMs > life.deadMs) acceptedTooLate++;
    } else if (status === 401) {
      refused++;
      if (beganMs > life.givenOutMs && endedMs < life.rotationBeganMs) refusedTooEarly++;
    } else {
      other[status] = (other[status] ?? 0) + 1;
    }
  }
  return { requests: uses.length, accepted, refused, acceptedTooLate, refusedTooEarly, other };
}
