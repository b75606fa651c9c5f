/** An answer that is held until its click is in the journal: the journal's waiter, one object per visit. */
import type { HttpResponse } from '#common/http/uws.ts';
import type { Waiter } from '#common/log/journal.ts';
import { sendPage, sendRedirect } from './answer.ts';
import type { Counters } from './counters.ts';

export interface VisitState {
  readonly counters: Counters;
  waiting: number;
  isStopping: boolean;
}

/** The visit whose answer is being written: one function for all of them instead of a closure for each. */
let current: Visit | null = null;

function writeCurrent(): void {
  current?.write();
}

export class Visit implements Waiter {
  readonly #state: VisitState;
  readonly #res: HttpResponse;
  readonly #kind: 'redirect' | 'expired' | 'preview';
  /** The Location, or the page. */
  readonly #content: string;
  #isAborted = false;

  constructor(state: VisitState, res: HttpResponse, kind: 'redirect' | 'expired' | 'preview', content: string) {
    this.#state = state;
    this.#res = res;
    this.#kind = kind;
    this.#content = content;
    state.waiting++;
  }

  abort(): void {
    this.#isAborted = true;
  }

  committed(): void {
    const state = this.#state;
    state.waiting--;
    if (this.#isAborted) {
      state.counters.aborted++;
      return;
    }
    state.counters.answers[this.#kind]++;
    current = this;
    this.#res.cork(writeCurrent);
    current = null;
  }

  /** The journal is full or broken. The visitor is sent on all the same. */
  refused(): void {
    this.#state.counters.not_recorded++;
    this.committed();
  }

  write(): void {
    const isLast = this.#state.isStopping;
    if (this.#kind === 'preview') sendPage(this.#res, this.#content, { isHead: false, wantsJson: false, isLast });
    else sendRedirect(this.#res, this.#content, isLast);
  }
}
