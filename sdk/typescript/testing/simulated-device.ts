/** A platform in memory for tests: its clock and timers are driven, its requests wait for an answer. */
import { FirstOpening } from '#src/first-open.ts';
import * as linkWork from '#src/link-work.ts';
import type { Answer, DeviceFields, Platform, Store } from '#src/platform.ts';

interface Timer {
  readonly at: number;
  readonly fire: () => void;
}

export interface PendingRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly answer: (answer: Answer) => void;
}

export class SimulatedDevice {
  readonly texts = new Map<string, string>();
  readonly requests: PendingRequest[] = [];
  readonly #ids = new Map<string, number>();
  readonly #kind: Platform['kind'];
  readonly #fields: DeviceFields;
  readonly #referrer: string | null;
  readonly #random: readonly number[];
  #drawn = 0;
  nowMs: number;
  /** Does not jump. */
  #ticks = 0;
  #timers: Timer[] = [];
  /** A process that has died does nothing more. */
  #life = 0;

  constructor(
    startMs: number,
    kind: Platform['kind'],
    fields: DeviceFields,
    referrer: string | null,
    random: readonly number[],
  ) {
    this.nowMs = startMs;
    this.#kind = kind;
    this.#fields = fields;
    this.#referrer = referrer;
    this.#random = random;
  }

  /** For one life of the process. */
  platform(): Platform {
    const life = this.#life;
    return {
      kind: this.#kind,
      store: this.#store(life),
      send: (url, headers, body) =>
        new Promise((answer) => {
          this.requests.push({
            url,
            headers,
            body: JSON.parse(body),
            answer: (one) => life === this.#life && answer(one),
          });
        }),
      now: () => this.nowMs,
      random: () => this.#random[Math.min(this.#drawn++, this.#random.length - 1)] ?? 0.5,
      newId: (kind) => {
        const number = (this.#ids.get(kind) ?? 0) + 1;
        this.#ids.set(kind, number);
        return `${kind}-${number}`;
      },
      timer: (fire, delayMs) => this.#timers.push({ at: this.#ticks + delayMs, fire }),
      links: () => linkWork,
      exclusively: async (work) => {
        await work();
        return true;
      },
      device: () => this.#fields,
      ...(this.#kind === 'device' ? { firstOpen: (host) => new FirstOpening(host, () => this.#referrer) } : {}),
    };
  }

  #store(life: number): Store {
    const alive = <T>(value: () => T): T => {
      if (life !== this.#life) throw new Error('this process has died');
      return value();
    };
    return {
      get: (key) => this.texts.get(key),
      set: (key, text) => alive(() => void this.texts.set(key, text)),
      remove: (keys) => alive(() => keys.forEach((key) => void this.texts.delete(key))),
      keys: () => [...this.texts.keys()],
    };
  }

  die(): void {
    this.#life++;
    this.#timers = [];
    this.requests.length = 0;
  }

  /** Lets the client do everything that it can without time and answers. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  async advance(ms: number): Promise<void> {
    const end = this.#ticks + ms;
    for (;;) {
      await this.settle();
      const [next] = this.#timers.filter(({ at }) => at <= end).sort((one, other) => one.at - other.at);
      const to = next?.at ?? end;
      this.nowMs += to - this.#ticks;
      this.#ticks = to;
      if (!next) return;
      this.#timers = this.#timers.filter((one) => one !== next);
      next.fire();
    }
  }
}
