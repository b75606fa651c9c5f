/** Hands links to the app. Those that come while nothing listens wait. */
import { UNTAKEN_LINKS_MAX } from './limits.ts';
import type { Link } from './types.ts';

type Listener = (link: Link) => void;

export class LinkFeed implements AsyncIterable<Link> {
  readonly #listeners = new Set<Listener>();
  readonly #onTaken: () => void;
  #untaken: Link[] = [];

  constructor(onTaken: () => void) {
    this.#onTaken = onTaken;
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    const waiting = this.#untaken;
    this.#untaken = [];
    // After `onLink` has returned, so that the listener can use its result.
    queueMicrotask(() => {
      for (const link of waiting) this.deliver(link);
    });
    return () => this.#listeners.delete(listener);
  }

  deliver(link: Link): void {
    if (this.#listeners.size === 0) {
      this.#untaken = [...this.#untaken, link].slice(-UNTAKEN_LINKS_MAX);
      return;
    }
    for (const listener of [...this.#listeners]) {
      try {
        listener(link);
      } catch (error) {
        console.error(error);
      }
    }
    this.#onTaken();
  }

  /** Links that come while the reader is busy wait, unless something else listens. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Link> {
    for (;;)
      yield await new Promise<Link>((resolve) => {
        const stop = this.listen((link) => {
          stop();
          resolve(link);
        });
      });
  }
}
