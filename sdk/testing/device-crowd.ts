/**
 * Many devices with the real client on bad connections: requests that are cut before or after the server got them, slow
 * ones, errors of something in between, clocks that jump, and processes that die. Time can pass faster than it does.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { Client } from '#sdk/typescript/src/client.ts';
import { FirstOpening } from '#sdk/typescript/src/first-open.ts';
import * as links from '#sdk/typescript/src/link-work.ts';
import { memoryStore } from '#sdk/typescript/src/memory-store.ts';
import type { Answer, Platform, Reply } from '#sdk/typescript/src/platform.ts';

export interface CrowdOptions {
  readonly devices: number;
  /** Of the devices' own time. */
  readonly durationMs: number;
  /** How much faster the devices' time passes. */
  readonly speed: number;
  readonly apiKey: string;
  /** From 0 inclusive to 1 exclusive, seeded. */
  readonly random: () => number;
  /** Sends a request to the real server. */
  readonly post: (path: string, body: string) => Promise<Reply>;
}

export interface CrowdResult {
  readonly devices: readonly DeviceEnd[];
  readonly requests: Readonly<Record<Fate, number>>;
  readonly crashes: number;
  readonly jumps: number;
}

export interface DeviceEnd {
  /** Names of events whose `track` had returned. */
  readonly tracked: readonly string[];
  readonly dropped: number;
  readonly queued: number;
}

type Fate = 'good' | 'slow' | 'cut_before' | 'cut_after' | 'error' | 'offline';

const fates: readonly (readonly [Fate, number])[] = [
  ['cut_before', 0.1],
  ['cut_after', 0.12],
  ['slow', 0.08],
  ['error', 0.08],
  ['offline', 0.05],
];

export class DeviceCrowd {
  readonly #options: CrowdOptions;
  readonly #startMs = performance.now();
  readonly #requests: Record<Fate, number> = { good: 0, slow: 0, cut_before: 0, cut_after: 0, error: 0, offline: 0 };
  #isCalm = false;
  #crashes = 0;
  #jumps = 0;

  constructor(options: CrowdOptions) {
    this.#options = options;
  }

  async run(): Promise<CrowdResult> {
    const { devices, durationMs } = this.#options;
    const crowd = Array.from({ length: devices }, (_, at) => new CrowdDevice(this, `d${at}`));
    await Promise.all(crowd.map((device) => device.live(durationMs)));
    // The network gets better, and every device sends what it still has.
    this.#isCalm = true;
    const ends = await Promise.all(crowd.map((device) => device.end()));
    return {
      devices: ends,
      requests: this.#requests,
      crashes: this.#crashes,
      jumps: this.#jumps,
    };
  }

  get options(): CrowdOptions {
    return this.#options;
  }

  /** Since the start, in the devices' time. */
  elapsedMs(): number {
    return (performance.now() - this.#startMs) * this.#options.speed;
  }

  sleep(ms: number): Promise<void> {
    return wait(ms / this.#options.speed);
  }

  chance(share: number): boolean {
    return this.#options.random() < share;
  }

  crashed(): void {
    this.#crashes++;
  }

  jumped(): void {
    this.#jumps++;
  }

  async send(url: string, body: string): Promise<Answer> {
    const fate = this.#fate();
    this.#requests[fate]++;
    const path = url.slice(url.indexOf('/v1') + 3);
    if (fate === 'offline') return 'unsent';
    if (fate === 'cut_before') return 'lost';
    if (fate === 'error') return this.#gatewayError();
    const answered = this.#options.post(path, body).catch(() => 'lost' as const);
    if (fate === 'good') return await answered;
    await answered;
    await this.sleep(this.#options.random() * 10_000);
    return fate === 'slow' ? await answered : 'lost';
  }

  #fate(): Fate {
    if (this.#isCalm) return 'good';
    let drawn = this.#options.random();
    for (const [fate, share] of fates) {
      if (drawn < share) return fate;
      drawn -= share;
    }
    return 'good';
  }

  /** Of something between the device and the server. */
  #gatewayError(): Reply {
    const retryAfter = this.chance(0.5) ? '2' : null;
    return {
      status: this.chance(0.5) ? 503 : 429,
      header: (name) => (name === 'retry-after' ? retryAfter : null),
      body: null,
    };
  }
}

class CrowdDevice {
  readonly #crowd: DeviceCrowd;
  readonly #name: string;
  readonly #texts = new Map<string, string>();
  readonly #tracked: string[] = [];
  #clockMs = 0;
  #life = 0;
  #client: Client;

  constructor(crowd: DeviceCrowd, name: string) {
    this.#crowd = crowd;
    this.#name = name;
    this.#client = this.#start();
  }

  async live(durationMs: number): Promise<void> {
    const crowd = this.#crowd;
    for (let n = 0; crowd.elapsedMs() < durationMs; n++) {
      await crowd.sleep(crowd.options.random() * 20_000);
      const life = this.#life;
      const name = `${this.#name}-${n}`;
      const isTracked = this.#client.track(name, { properties: { n } }).then(
        () => life === this.#life && this.#tracked.push(name),
        () => undefined,
      );
      // A dead process never returns from a call.
      if (crowd.chance(0.05)) this.#crash();
      else await isTracked;
      if (crowd.chance(0.03)) this.#jump();
    }
  }

  async end(): Promise<DeviceEnd> {
    for (let tries = 0; ; tries++) {
      const { queued, dropped } = await this.#client.flush();
      const sum = dropped.full + dropped.expired + dropped.rejected + dropped.consent;
      if (queued === 0 || tries === 60) return { tracked: this.#tracked, queued, dropped: sum };
      await this.#crowd.sleep(10_000);
    }
  }

  #jump(): void {
    this.#crowd.jumped();
    // Up to two days either way, or a few seconds.
    const size = this.#crowd.chance(0.5) ? 172_800_000 : 20_000;
    this.#clockMs += (this.#crowd.options.random() - 0.5) * size;
  }

  /** Like kill -9: nothing of the old process writes or hears anything any more. */
  #crash(): void {
    this.#crowd.crashed();
    this.#life++;
    this.#client = this.#start();
  }

  #start(): Client {
    const life = this.#life;
    const { random, apiKey, speed } = this.#crowd.options;
    const isAlive = () => life === this.#life;
    const never = new Promise<never>(() => undefined);
    const store = memoryStore(this.#texts);
    const platform: Platform = {
      kind: 'device',
      firstOpen: (host) => new FirstOpening(host),
      store: {
        ...store,
        set: (key, text) => (isAlive() ? store.set(key, text) : never),
        remove: (keys) => (isAlive() ? store.remove(keys) : never),
      },
      send: async (url, _headers, body) => {
        const answer = await this.#crowd.send(url, body);
        return isAlive() ? answer : await never;
      },
      now: () => Math.round(Date.now() + this.#crowd.elapsedMs() * (1 - 1 / speed) + this.#clockMs),
      random,
      newId: (kind) => `${kind}-${this.#name}-${Math.floor(random() * 2 ** 48).toString(36)}`,
      timer: (fire, delayMs) => setTimeout(() => isAlive() && fire(), delayMs / speed).unref(),
      exclusively: async (work) => {
        await work();
        return true;
      },
      device: () => ({ platform: 'android' }),
      links: () => links,
    };
    return new Client({ host: 'https://api.example.com', apiKey }, platform);
  }
}
