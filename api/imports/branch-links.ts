/**
 * Reads links from Branch: GET /v1/url, with the customer's Branch key. The server is set by the operator, and the
 * request is checked and bounded like every outbound request (common/outbound-request.ts). Branch allows 100,000 such
 * requests per hour, so at most `perSecond` start per second, and `parallelMax` run at a time.
 */
import { firstCharacters } from '#common/first-characters.ts';
import { type Resolve, resolveWith } from '#common/host-addresses.ts';
import { isObject, objectIn } from '#common/json-object.ts';
import { outboundRequest } from '#common/outbound-request.ts';
import type { Config } from '#common/process/settings.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { sleep, systemTime, type Time } from '#common/time.ts';
import { type BranchLink, branchLink } from './branch-answer.ts';

const perSecond = 25;
const parallelMax = 8;
const requestMs = 5_000;
const answerBytesMax = 65_536;
/** Attempts for one link, with waits in between. */
const triesMax = 4;
const firstWaitMs = 1_000;
const waitMsMax = 10_000;
/** Time limit for all links of one call, so that this process still holds the import afterwards. */
const questionMs = 30_000;
const messageCharactersMax = 200;
const longWord = /[^\s"'<>(){}[\]]{20,}/g;
const pieceCharacters = 8;

export type BranchAnswer =
  | { readonly kind: 'link'; readonly link: BranchLink }
  /** Retrying would not help. */
  | { readonly kind: 'refused'; readonly message: string }
  /** No result within the time, or the import was stopped. */
  | { readonly kind: 'unanswered'; readonly message: string };

interface BranchQuestion {
  readonly key: string;
  /** Null: not requested. */
  readonly urls: readonly (URL | null)[];
  readonly signal: AbortSignal;
}

interface BranchLinksParts {
  /** Base URL of Branch's API, without a path. */
  readonly url: string;
  readonly resolve: Resolve;
  readonly reachable: ReachableAddresses;
  readonly time: Time;
}

export class BranchLinks {
  readonly #parts: BranchLinksParts;
  #nextAt = 0;

  constructor(parts: BranchLinksParts) {
    this.#parts = parts;
  }

  /** The result for each URL; null where no URL is given or it was not requested. Never rejects. */
  async ask({ key, urls, signal }: BranchQuestion): Promise<(BranchAnswer | null)[]> {
    const endsAt = this.#parts.time.elapsed() + questionMs;
    const answers: (BranchAnswer | null)[] = urls.map(() => null);
    const waiting = [...urls.entries()].reverse();
    // Once a request stays unanswered, later URLs are not requested, because only results before it are stored.
    let isOver = false;
    const work = async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const [at, url] = next;
        if (url === null || isOver) continue;
        const answer = await this.#askUntil(endsAt, key, url, signal);
        answers[at] = answer;
        isOver ||= answer.kind === 'unanswered';
      }
    };
    await Promise.all(Array.from({ length: parallelMax }, work));
    return answers;
  }

  async #askUntil(endsAt: number, key: string, url: URL, signal: AbortSignal): Promise<BranchAnswer> {
    const { time } = this.#parts;
    let message = 'the import was stopped';
    for (let tries = 1; !signal.aborted; tries++) {
      await this.#turn();
      const asked = await this.#askOnce(key, url, signal);
      if (asked.kind !== 'again') return asked;
      ({ message } = asked);
      const waitMs = Math.min(asked.waitMs ?? firstWaitMs * 2 ** (tries - 1), waitMsMax);
      if (tries === triesMax || time.elapsed() + waitMs + requestMs > endsAt) break;
      await sleep(time, waitMs);
    }
    return { kind: 'unanswered', message };
  }

  /** Waits until the rate allows this request. */
  async #turn(): Promise<void> {
    const { time } = this.#parts;
    const nowMs = time.elapsed();
    const at = Math.max(this.#nextAt, nowMs);
    this.#nextAt = at + 1_000 / perSecond;
    if (at > nowMs) await sleep(time, at - nowMs);
  }

  async #askOnce(
    key: string,
    url: URL,
    signal: AbortSignal,
  ): Promise<
    | Exclude<BranchAnswer, { kind: 'unanswered' }>
    | { readonly kind: 'again'; readonly message: string; readonly waitMs?: number }
  > {
    const { url: base, resolve, reachable } = this.#parts;
    const query = new URLSearchParams({ url: url.href, branch_key: key });
    const headers = { accept: 'application/json', 'user-agent': 'signpost-import/1' };
    const outcome = await outboundRequest(
      { method: 'GET', url: `${base}/v1/url?${query}`, headers, answerBytesMax, signal },
      { resolve, reachable, timeLimitMs: requestMs },
    );
    if (outcome.kind !== 'answered')
      return { kind: 'again', message: outcome.kind === 'failed' ? outcome.reason : 'stopped' };
    const { status } = outcome;
    const answer = objectIn(outcome.body.toString());
    if (status === 200) {
      if (outcome.body.byteLength >= answerBytesMax) return { kind: 'refused', message: 'its response is too long' };
      if (!outcome.isWhole) return { kind: 'again', message: 'its response was cut off' };
      const link = linkIn(answer, url);
      if (link === 'unreadable') return { kind: 'refused', message: 'its response cannot be read' };
      return link === null ? { kind: 'refused', message: 'its response contains no link' } : { kind: 'link', link };
    }
    if (status === 429 || status === 408 || status >= 500) {
      const seconds = Number(outcome.headers['retry-after']);
      return { kind: 'again', message: `HTTP ${status}`, ...(seconds >= 0 ? { waitMs: seconds * 1_000 } : {}) };
    }
    return { kind: 'refused', message: `HTTP ${status}${problemIn(answer, key)}` };
  }
}

/** An unexpected response affects only its own row. */
function linkIn(answer: unknown, url: URL): BranchLink | null | 'unreadable' {
  try {
    return branchLink(answer, url);
  } catch {
    return 'unreadable';
  }
}

/** Branch's error message, without the key in any form. */
function problemIn({ error }: Record<string, unknown>, key: string): string {
  const said = isObject(error) ? error['message'] : error;
  if (typeof said !== 'string' || said === '') return '';
  const problem = /"message":"([^"]*)"/.exec(said)?.[1] ?? said;
  // No ordinary word is as long as a key, in any encoding.
  const words = problem.replaceAll('\0', '').toWellFormed().replaceAll(longWord, '…');
  const text = firstCharacters(words, messageCharactersMax);
  return hasPieceOf(key, text) ? '' : `: ${text}`;
}

/** Whether the remaining text contains a piece of the key, for example a key written in groups. */
function hasPieceOf(key: string, text: string): boolean {
  const plain = (given: string) => given.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  const bare = plain(text);
  const secret = key.slice(key.lastIndexOf('_') + 1);
  const codes = [...Buffer.from(secret)].join('');
  const forms = [secret, [...secret].reverse().join(''), Buffer.from(secret).toString('hex'), codes];
  for (const shift of ['', '_', '__'])
    forms.push(
      Buffer.from(shift + secret)
        .toString('base64')
        .slice(2),
    );
  return forms.map(plain).some((form) => {
    for (let at = 0; at + pieceCharacters <= form.length; at++)
      if (bare.includes(form.slice(at, at + pieceCharacters))) return true;
    return false;
  });
}

export function branchLinksWith(
  config: Pick<Config, 'BRANCH_API_URL' | 'DNS_SERVERS' | 'WEBHOOK_ALLOWED_NETWORKS'>,
): BranchLinks {
  return new BranchLinks({
    url: config.BRANCH_API_URL,
    resolve: resolveWith(config.DNS_SERVERS),
    reachable: new ReachableAddresses(config.WEBHOOK_ALLOWED_NETWORKS),
    time: systemTime,
  });
}
