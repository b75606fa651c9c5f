/** Parsed user agents for the feeds of recent clicks: one cache for all partitions of a process. */

import { LRUCache } from 'lru-cache';
import { isBotAgent } from '#common/bots.ts';
import { readUserAgent } from '#common/user-agent.ts';

const AGENTS_MAX = 20_000;

export interface Agent {
  readonly isBot: boolean;
  /** Platform of the devices that it may be; Safari on a Mac may be an iPad. */
  readonly platform: 'ios' | 'android' | 'other';
}

export class ClickAgents {
  readonly #known = new LRUCache<string, Agent>({ max: AGENTS_MAX });

  of(user_agent: string): Agent {
    let known = this.#known.get(user_agent);
    if (!known) {
      const { family, maybeIpad } = readUserAgent(user_agent);
      const platform = maybeIpad ? 'ios' : family;
      known = { isBot: user_agent === '' || isBotAgent(user_agent), platform };
      this.#known.set(user_agent, known);
    }
    return known;
  }
}
