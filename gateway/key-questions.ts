/**
 * Groups requests into shared queries to Redis about keys. A query covers all requests that arrived before it was sent:
 * at most one query runs for a key and its class of limits, and the requests that arrive in the meantime share the next
 * one. An app sends many requests at once, and a query costs as much as everything else that is done for a request.
 */
import type { AppSnapshot } from '#common/links/app-snapshot.ts';
import { TransientMap } from '#common/transient-map.ts';
import type { Chain } from './limit-chain.ts';

/** Networks in one question; further ones begin the next. */
const GROUPS_MAX = 200;

export interface Answered {
  readonly app: AppSnapshot;
  /** For each group and each of its levels: what was counted before the question, and the end of the window. */
  readonly windows: readonly number[];
}

/** The requests of a question that have one chain of limits. */
export interface Group {
  readonly question: Question;
  readonly chain: Chain;
  /** Number of requests so far; directly after a request is added, this is its position among them. */
  requests: number;
  /** Where its levels begin in the answer's windows. */
  readonly at: number;
}

export class Question {
  readonly key: string;
  readonly askedMs: number;
  readonly groups = new Map<Chain, Group>();
  /** Number of levels of all groups. */
  levels = 0;
  requests = 0;
  /** Null if Redis does not know the key, or is unavailable. */
  readonly answer: Promise<Answered | null>;
  settle: (answer: Answered | null) => void = () => undefined;

  constructor(key: string, askedMs: number) {
    this.key = key;
    this.askedMs = askedMs;
    this.answer = new Promise((settle) => {
      this.settle = settle;
    });
  }

  add(chain: Chain): Group {
    let group = this.groups.get(chain);
    if (group === undefined) {
      group = { question: this, chain, requests: 0, at: 2 * this.levels };
      this.groups.set(chain, group);
      this.levels += chain.levels.length;
    }
    group.requests++;
    this.requests++;
    return group;
  }
}

interface Lane {
  readonly name: string;
  isRunning: boolean;
  /** The last one still takes requests. */
  readonly next: Question[];
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
  ask(key: string, chain: Chain, nowMs: number): Group {
    const name = `${key} ${chain.limitClass}`;
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      lane = { name, isRunning: false, next: [] };
      this.#lanes.set(name, lane);
    }
    let question = lane.next.at(-1);
    if (question === undefined || (question.groups.size >= GROUPS_MAX && !question.groups.has(chain))) {
      question = new Question(key, nowMs);
      lane.next.push(question);
      if (!lane.isRunning && lane.next.length === 1) this.#sendLater(lane);
    }
    return question.add(chain);
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
    const question = lane.next.shift();
    if (question === undefined) return;
    lane.isRunning = true;
    question.settle(await this.#parts.query(question));
    lane.isRunning = false;
    if (lane.next.length === 0) this.#lanes.delete(lane.name);
    else this.#sendLater(lane);
  }
}
