/**
 * Groups requests into shared queries to Redis about keys. A query covers all requests that arrived before it was sent:
 * at most one query runs for a key and its limit, and the requests that arrive in the meantime share the next one. An
 * app sends many requests at once, and a query costs as much as everything else that is done for a request.
 */
import type { AppSnapshot } from '#common/links/app-snapshot.ts';
import type { Window } from '#common/rate-limit.ts';
import { TransientMap } from '#common/transient-map.ts';

/** The subject of the limit: an app, an app at an address, or an address. */
export interface Subject {
  readonly head: string;
  readonly tail: string;
  readonly isOfApp: boolean;
}

export interface Answered {
  readonly app: AppSnapshot;
  /** The window after all requests of the question were counted. */
  readonly window: Window;
}

export class Question {
  readonly key: string;
  readonly subject: Subject;
  readonly askedMs: number;
  /** Number of requests so far; directly after a request is added, this is its position among them. */
  requests = 0;
  /** Null if Redis does not know the key, or is unavailable. */
  readonly answer: Promise<Answered | null>;
  settle: (answer: Answered | null) => void = () => undefined;

  constructor(key: string, subject: Subject, askedMs: number) {
    this.key = key;
    this.subject = subject;
    this.askedMs = askedMs;
    this.answer = new Promise((settle) => {
      this.settle = settle;
    });
  }
}

interface Lane {
  readonly name: string;
  isRunning: boolean;
  next: Question | null;
}

export interface QuestionsParts {
  /** Never fails. */
  readonly query: (question: Question) => Promise<Answered | null>;
  /** Runs `send`, which sends the queries of one turn, as one pipeline. */
  readonly together: (send: () => void) => void;
}

export class KeyQuestions {
  readonly #parts: QuestionsParts;
  readonly #lanes = new TransientMap<string, Lane>();
  #due: Lane[] = [];
  readonly #onTurnEnd = () => this.#send();

  constructor(parts: QuestionsParts) {
    this.#parts = parts;
  }

  /** Adds a request to a question that is sent no earlier than the end of this turn. */
  ask(key: string, subject: Subject, nowMs: number): Question {
    const name = `${key} ${subject.head}${subject.tail}`;
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      lane = { name, isRunning: false, next: null };
      this.#lanes.set(name, lane);
    }
    if (lane.next === null) {
      lane.next = new Question(key, subject, nowMs);
      if (!lane.isRunning) this.#sendLater(lane);
    }
    lane.next.requests++;
    return lane.next;
  }

  #sendLater(lane: Lane): void {
    if (this.#due.length === 0) setImmediate(this.#onTurnEnd);
    this.#due.push(lane);
  }

  #send(): void {
    const due = this.#due;
    this.#due = [];
    this.#parts.together(() => {
      for (const lane of due) void this.#run(lane);
    });
  }

  async #run(lane: Lane): Promise<void> {
    const question = lane.next;
    if (question === null) return;
    lane.next = null;
    lane.isRunning = true;
    question.settle(await this.#parts.query(question));
    lane.isRunning = false;
    if (lane.next === null) this.#lanes.delete(lane.name);
    else this.#sendLater(lane);
  }
}
