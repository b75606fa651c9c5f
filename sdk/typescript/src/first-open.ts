/** What an app does once: the first match, which finds the deferred link, and then the install. Pages and servers do neither. */

import { FIRST_OPEN_WAIT_MS, PENDING_CLICK_TRIES_MAX, UNTAKEN_LINK_MAX_MS } from './limits.ts';
import { isPending, takeMatch } from './link-work.ts';
import type { ClientHost, FirstOpen, MaybePromise } from './platform.ts';

type Referrer = () => MaybePromise<string | null>;

export class FirstOpening implements FirstOpen {
  readonly #host: ClientHost;
  readonly #referrer: Referrer;
  #isMatchDue = false;
  #tries = 0;
  #isReplayed = false;

  /** @param referrer the Play Store's. */
  constructor(host: ClientHost, referrer: Referrer = () => null) {
    this.#host = host;
    this.#referrer = referrer;
    this.#matchAfter(FIRST_OPEN_WAIT_MS);
  }

  async step(): Promise<boolean | null> {
    this.#replay();
    const { consent, opened, installed } = this.#host.state();
    if (!opened) return this.#isMatchDue && !this.#host.isResolving() ? await this.#match() : null;
    return !installed && consent === 'all' ? await this.#install() : null;
  }

  /** A deferred link that no listener took in an earlier life of the app. */
  #replay(): void {
    const { untaken } = this.#host.state();
    const age = this.#host.platform.now() - (untaken?.at ?? 0);
    if (untaken && !this.#isReplayed && age >= 0 && age < UNTAKEN_LINK_MAX_MS) this.#host.feed.deliver(untaken.link);
    this.#isReplayed = true;
  }

  #matchAfter(delayMs: number): void {
    this.#host.later(delayMs, () => {
      this.#isMatchDue = true;
    });
  }

  async #evidence(): Promise<{ install_referrer?: string }> {
    const install_referrer = await this.#referrer();
    return install_referrer ? { install_referrer } : {};
  }

  async #match(): Promise<boolean> {
    const evidence = await this.#evidence();
    const outcome = await this.#host.ask('/sdk/match', evidence, 'match_type');
    if (outcome === null) return true;
    if (!this.#host.isFinal(outcome)) return false;
    if (isPending(outcome) && this.#tries++ < PENDING_CLICK_TRIES_MAX) {
      this.#isMatchDue = false;
      this.#matchAfter(Number(outcome.body['retry_after_ms']));
    } else await takeMatch(this.#host, outcome.body, {});
    return true;
  }

  async #install(): Promise<boolean> {
    const { match_id, user_id } = this.#host.state();
    const evidence = await this.#evidence();
    const outcome = await this.#host.ask('/sdk/install', { match_id, user_id, ...evidence }, 'install_id');
    if (outcome === null) return true;
    if (!this.#host.isFinal(outcome)) return false;
    this.#host.state().installed = true;
    await this.#host.save();
    return true;
  }
}
