/** Runs one case of sdk/vectors against the client. */
import { expect } from 'vitest';
import { Client } from '#src/client.ts';
import type { Link } from '#src/types.ts';
import { SimulatedDevice } from './simulated-device.ts';
import type { Json, Step, VectorAnswer, VectorCase } from './vector-case.ts';

const startMs = Date.parse('2026-03-01T12:00:00.000Z');
const options = { host: 'https://api.example.com', apiKey: 'lk_test' };

export class VectorRun {
  readonly #case: VectorCase;
  readonly #device: SimulatedDevice;
  #client: Client | null = null;
  #links: Link[] = [];
  /** What calls returned, by the name that the step gave; a call that failed has its error. */
  readonly #results = new Map<string, unknown>();
  #held: ((answer: Exclude<VectorAnswer, 'hold'>) => void) | null = null;

  constructor(one: VectorCase) {
    this.#case = one;
    const { kind = 'device', device = { platform: 'ios' }, referrer = null, random = [0.5] } = one;
    this.#device = new SimulatedDevice(startMs, kind, device, referrer, random);
    this.#fill();
  }

  async run(): Promise<void> {
    for (const [at, step] of this.#case.steps.entries()) {
      try {
        await this.#step(step);
      } catch (error) {
        if (error instanceof Error)
          error.message = `step ${at} ${JSON.stringify(step).slice(0, 200)}\n${error.message}`;
        throw error;
      }
    }
  }

  #fill(): void {
    const { texts } = this.#device;
    const { state, queue = [], flight, broken } = this.#case.stored ?? {};
    if (broken) texts.set('state', '{').set('flight', '{').set('e000000000001-x', '{');
    if (state) texts.set('state', JSON.stringify(state));
    const keys = queue.map(({ event_id }, at) => `e${String(at + 1).padStart(12, '0')}-${event_id}`);
    for (const [at, event] of queue.entries()) texts.set(keys[at] ?? '', JSON.stringify(event));
    if (!flight) return;
    const { event_ids, ...times } = flight;
    texts.set('flight', JSON.stringify({ ...times, keys: keys.filter((key) => event_ids.includes(key.slice(14))) }));
  }

  async #step(step: Step): Promise<void> {
    const device = this.#device;
    if (step.start) this.#client = new Client({ ...options, ...this.#case.options, ...step.start }, device.platform());
    if (step.listen) this.#client?.onLink((link) => this.#links.push(link));
    if (step.call) await this.#call(step.call, step);
    if (step.advance !== undefined) await device.advance(step.advance);
    if (step.jump !== undefined) device.nowMs += step.jump;
    if (step.crash) device.die();
    await device.settle();
    if (step.request) this.#request(step.request, step.answer ?? 'lost');
    else if (step.answer && step.answer !== 'hold') this.#held?.(step.answer);
    await device.settle();
    if (step.idle) expect(device.requests.map(({ url, body }) => ({ url, body }))).toEqual([]);
    if (step.links) expect(this.#links.splice(0)).toEqual(step.links);
    if (step.result !== undefined && !step.call) expect(this.#results.get(String(step.result))).toEqual(step.is);
    if (step.fails) expect(String(this.#results.get(step.fails))).toContain(step.with);
    if (step.stored) this.#checkStored(step.stored);
    if (step.kept) expect(Object.fromEntries(device.texts)).toEqual({ state: expect.any(String) });
    if (step.kept) expect(JSON.parse(device.texts.get('state') ?? '')).toEqual(step.kept);
  }

  async #call(name: string, { args = [], times = 1, as = '', result }: Step): Promise<void> {
    const client = this.#client as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    for (let n = 1; n <= times; n++) {
      const given = args.map((arg) => filled(arg, n));
      this.#results.set(as, 'still running');
      const keep = (value: unknown) => this.#results.set(as, value);
      void client[name]?.(...given).then(keep, keep);
    }
    await this.#device.settle();
    if (result !== undefined) expect(this.#results.get(as) ?? null).toEqual(result);
  }

  #request({ path, body, event_ids }: NonNullable<Step['request']>, answer: VectorAnswer): void {
    const [request, ...others] = this.#device.requests.splice(0);
    expect(request?.url).toBe(`https://api.example.com/v1${path}`);
    expect(others.map(({ url }) => url)).toEqual([]);
    expect(request?.headers).toEqual({ 'content-type': 'application/json', 'x-api-key': 'lk_test' });
    const sent = request?.body as { events?: { event_id: string }[] };
    if (body) expect(sent).toEqual(filled(body, 0));
    if (event_ids) expect(sent.events?.map(({ event_id }) => event_id)).toEqual(idsOf(event_ids));
    const reply = (given: Exclude<VectorAnswer, 'hold'>) =>
      request?.answer(typeof given === 'string' ? given : { ...given, header: (name) => given.headers[name] ?? null });
    if (answer === 'hold') this.#held = reply;
    else reply(answer);
  }

  #checkStored({ state, queue, flight }: NonNullable<Step['stored']>): void {
    const { texts } = this.#device;
    const kept = JSON.parse(texts.get('state') ?? '{}');
    for (const [name, value] of Object.entries(state ?? {})) expect(kept[name] ?? null).toEqual(value);
    const keys = [...texts.keys()].filter((key) => key.startsWith('e')).sort();
    if (queue) expect(keys.map((key) => key.slice(14))).toEqual(idsOf(queue));
    const inDoubt: string[] = JSON.parse(texts.get('flight') ?? '{"keys":[]}').keys;
    if (flight) expect(inDoubt.map((key) => key.slice(14))).toEqual(idsOf(flight));
  }
}

/** `evt-1..evt-3` stands for three ids. */
function idsOf(texts: readonly string[]): string[] {
  return texts.flatMap((text) => {
    const [, prefix, from, to] = /^(.+-)(\d+)\.\.\1(\d+)$/.exec(text) ?? [];
    if (prefix === undefined) return [text];
    return Array.from({ length: Number(to) - Number(from) + 1 }, (_, n) => prefix + (Number(from) + n));
  });
}

/** `{n}` is the number of the call, and `{"$repeat": ["x", 3]}` is `xxx`. */
function filled(value: Json, n: number): Json {
  if (typeof value === 'string') return value.replaceAll('{n}', String(n));
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => filled(one, n));
  const fields = value as Readonly<Record<string, Json>>;
  const repeat = fields['$repeat'] as readonly [string, number] | undefined;
  if (repeat) return repeat[0].repeat(repeat[1]);
  return Object.fromEntries(Object.entries(fields).map(([name, one]) => [name, filled(one, n)]));
}
