/**
 * An answer that is held back until its click is in the journal. Implements the journal's waiter, with one object per
 * visit.
 */
import type { HttpResponse } from '#common/http/uws.ts';
import type { Waiter } from '#common/journal/journal.ts';
import { sendPage, sendRedirect } from './answer.ts';
import type { Counters } from './counters.ts';

export interface VisitState {
  readonly counters: Counters;
  waiting: number;
  isStopping: boolean;
}

/** The visit whose answer is being written: a shared function instead of a closure per visit. */
let current: Visit | null = null;

function writeCurrent(): void {
  current?.write();
}

/** Maximum finished visits kept for reuse; others are left to the garbage collector. */
const spareMax = 1_024;
const spare: Visit[] = [];

type VisitKind = 'redirect' | 'expired' | 'preview' | 'tap_page';

/** Reused to save an object and a closure per visit. uWebSockets.js drops `abort` after the answer. */
export class Visit implements Waiter {
  #state: VisitState;
  #res: HttpResponse;
  #kind: VisitKind;
  /** The Location, or the page. */
  #content: string;
  /** The page's Content-Security-Policy. */
  #policy: string;
  #isAborted = false;
  readonly #abort = () => {
    this.#isAborted = true;
  };

  private constructor(state: VisitState, res: HttpResponse, kind: VisitKind, content: string, policy: string) {
    this.#state = state;
    this.#res = res;
    this.#kind = kind;
    this.#content = content;
    this.#policy = policy;
  }

  /** Holds the answer back until `committed` or `refused`. */
  static begin(state: VisitState, res: HttpResponse, kind: VisitKind, content: string, policy = ''): Visit {
    const used = spare.pop();
    const visit = used?.again(state, res, kind, content, policy) ?? new Visit(state, res, kind, content, policy);
    state.waiting++;
    res.onAborted(visit.#abort);
    return visit;
  }

  again(state: VisitState, res: HttpResponse, kind: VisitKind, content: string, policy: string): this {
    this.#state = state;
    this.#res = res;
    this.#kind = kind;
    this.#content = content;
    this.#policy = policy;
    this.#isAborted = false;
    return this;
  }

  committed(): void {
    const state = this.#state;
    state.waiting--;
    if (this.#isAborted) {
      state.counters.aborted++;
    } else {
      state.counters.answers[this.#kind]++;
      current = this;
      this.#res.cork(writeCurrent);
      current = null;
    }
    if (spare.length < spareMax) spare.push(this);
  }

  /** The journal is full or has failed; the visitor is redirected anyway. */
  refused(): void {
    this.#state.counters.not_recorded++;
    this.committed();
  }

  write(): void {
    const isLast = this.#state.isStopping;
    if (this.#kind === 'redirect' || this.#kind === 'expired') sendRedirect(this.#res, this.#content, isLast);
    else sendPage(this.#res, this.#content, { isHead: false, wantsJson: false, isLast }, this.#policy);
  }
}
