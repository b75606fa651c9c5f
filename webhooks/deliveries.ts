/**
 * Delivers messages: claims due messages, sends each in one request, and records the outcome.
 *
 * Bounds: `concurrentMax` requests at a time, each for `timeLimitMs`; `message-store.ts` limits what one endpoint and
 * one organization get of them. A message is delivered again after its lease if its attempt could not be recorded
 * because Postgres is unavailable, or its clicks could not be read because ClickHouse is unavailable. Any other error of
 * our own counts as a failed attempt, so that a message that always causes it ends.
 */
import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { Clock } from '#common/clock.ts';
import type { Encryption } from '#common/encryption.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import {
  type OutboundOutcome,
  type OutboundRequest,
  type OutboundRules,
  outboundRequest,
} from '#common/outbound-request.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { WebhookFailure } from '#common/webhooks/webhook-events.ts';
import { webhookSecretContext } from '#common/webhooks/webhook-secret.ts';
import type { ReadQuery } from './click-query.ts';
import type { Attempt, ClaimedMessage, MessageStore } from './message-store.ts';
import { isOutage } from './outage.ts';
import { isNarrowedBatch, payloadOf } from './payload.ts';
import { postbackRequest } from './postback-request.ts';
import { retryDelayMs } from './schedule.ts';
import { signedHeaders } from './signature.ts';
import type { ReadClicks } from './stored-clicks.ts';

const concurrentMax = 200;
const lookMs = 500;
/** Time that running attempts have when the process stops; then they are aborted and their messages released. */
const drainMsMax = 8_000;
/** Bytes of a response that are stored for the tenant to see. */
const answerBytesMax = 1_024;
export const timeLimitMs = 20_000;

export interface DeliveryParts extends Pick<OutboundRules, 'resolve' | 'reachable'> {
  readonly store: MessageStore;
  readonly encryption: Encryption;
  readonly shortUrl: ShortUrl;
  readonly readClicks: ReadClicks;
  readonly readQuery: ReadQuery;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn' | 'info' | 'error'>;
  /** False in a restored copy, and with a wrong SECRET_KEY: then nothing is claimed, so nothing counts as failed. */
  readonly maySend: () => boolean;
  /** Replaced in tests. */
  readonly timeLimitMs?: number;
  readonly drainMs?: number;
}

export class Deliveries {
  readonly name = 'deliveries';
  /** Attempts by outcome, since the start of the process. */
  readonly attempts = new Map<string, number>();
  disabled = 0;
  readonly #parts: DeliveryParts;
  readonly #lease = randomUUID();
  readonly #underWay = new Set<Promise<void>>();
  readonly #aborting = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #claiming: Promise<unknown> | undefined;
  #isUnavailable = false;
  #isStopping = false;

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    setMaxListeners(concurrentMax, this.#aborting.signal);
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  start(): void {
    this.#timer = setInterval(() => this.#look(), lookMs);
    this.#look();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#timer);
    await this.#claiming;
    const timer = setTimeout(() => this.#aborting.abort(), this.#parts.drainMs ?? drainMsMax);
    await this.settled();
    clearTimeout(timer);
  }

  /** Claims due messages and starts to deliver them. @returns the number of messages. Never rejects. */
  async claim(): Promise<number> {
    const free = concurrentMax - this.#underWay.size;
    if (free === 0 || this.#isStopping || !this.#parts.maySend()) return 0;
    try {
      const messages = await this.#parts.store.claim(this.#lease, free);
      for (const message of messages) {
        const delivery: Promise<void> = this.#deliver(message).finally(() => this.#underWay.delete(delivery));
        this.#underWay.add(delivery);
      }
      this.#note(true);
      return messages.length;
    } catch (err) {
      this.#note(false, err);
      return 0;
    }
  }

  /** Resolves when no attempt is running. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #look(): void {
    this.#claiming ??= this.claim().finally(() => {
      this.#claiming = undefined;
    });
  }

  async #deliver(message: ClaimedMessage): Promise<void> {
    const { clock, store } = this.#parts;
    const attemptedMs = clock();
    const started = performance.now();
    const sinceStart = () => Math.round(performance.now() - started);
    try {
      if (!message.is_for_apps) return await store.remove(message);
      const outcome = await this.#send(message, attemptedMs);
      if (outcome.kind === 'uncovered') return await store.remove(message);
      if (outcome.kind === 'aborted') return await store.release(message);
      if (outcome.kind === 'failed' && outcome.reason === 'secret_unreadable') {
        const attempt = { message, attemptedMs, durationMs: sinceStart(), ...namesOf(outcome) };
        return await this.#giveUp(attempt, 'SECRET_KEY cannot decrypt the secret of the endpoint');
      }
      await this.#settle({ message, attemptedMs, durationMs: sinceStart(), ...namesOf(outcome) }, outcome);
    } catch (err) {
      if (isOutage(err)) return this.#note(false, err);
      await this.#giveUp({ message, attemptedMs, durationMs: sinceStart(), ...internalError }, err);
    }
  }

  /** Stores a failed attempt of a message that cannot be processed. Never rejects. */
  async #giveUp(attempt: Attempt, err: unknown): Promise<void> {
    const { clock, store, log } = this.#parts;
    const { id: message_id, endpoint_id, tries } = attempt.message;
    log.error({ err, message_id, endpoint_id }, 'a webhook message could not be processed');
    this.attempts.set(attempt.outcome, (this.attempts.get(attempt.outcome) ?? 0) + 1);
    try {
      await store.unprocessed(attempt, retryDelayMs(tries + 1, '', clock()));
    } catch (failure) {
      this.#note(false, failure);
    }
  }

  async #send(message: ClaimedMessage, nowMs: number): Promise<SendOutcome> {
    const { resolve, reachable } = this.#parts;
    const request = await this.#requestOf(message, nowMs);
    if ('kind' in request) return request;
    const rules = { resolve, reachable, timeLimitMs: this.#parts.timeLimitMs ?? timeLimitMs };
    return await outboundRequest({ ...request, answerBytesMax, signal: this.#aborting.signal }, rules);
  }

  /** @throws ClickHouseFailure */
  async #requestOf(message: ClaimedMessage, nowMs: number): Promise<WebhookRequest | SendOutcome> {
    const { encryption, shortUrl, readClicks, readQuery } = this.#parts;
    if (message.postback_method !== null) return await postbackRequest(message, message.postback_method, readQuery);
    const { id, endpoint_id, previous_secret_ciphertext: previous } = message;
    const secretOf = (sealed: string) => encryption.decrypt(sealed, webhookSecretContext(endpoint_id));
    let secrets: string[];
    try {
      secrets = [message.secret_ciphertext ?? '', ...(previous === null ? [] : [previous])].map(secretOf);
    } catch {
      return { kind: 'failed', reason: 'secret_unreadable' };
    }
    const body = await payloadOf(message, shortUrl, readClicks);
    if (body === null) return { kind: isNarrowedBatch(message) ? 'uncovered' : 'gone' };
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'Signpost-Webhooks/1',
      ...signedHeaders(id, nowMs, body, secrets),
    };
    return { method: 'POST', url: message.url, headers, body };
  }

  async #settle(attempt: Attempt, outcome: RecordedOutcome): Promise<void> {
    const { clock, store } = this.#parts;
    this.attempts.set(attempt.outcome, (this.attempts.get(attempt.outcome) ?? 0) + 1);
    if (attempt.outcome === 'delivered') return await store.delivered(attempt);
    if (outcome.kind === 'gone') return await store.abandoned(attempt);
    const isGone = attempt.httpStatus === 410;
    const retryAfter = outcome.kind === 'answered' ? (outcome.headers['retry-after'] ?? '') : '';
    const delay = isGone ? null : retryDelayMs(attempt.message.tries + 1, retryAfter, clock());
    const reason = await store.failed(attempt, delay);
    if (reason === undefined) return;
    this.disabled++;
    this.#parts.log.info({ endpoint_id: attempt.message.endpoint_id, reason }, 'a webhook endpoint was disabled');
  }

  #note(isAvailable: boolean, err?: unknown): void {
    if (isAvailable !== this.#isUnavailable) return;
    this.#isUnavailable = !isAvailable;
    if (isAvailable) this.#parts.log.info('webhooks can be delivered again');
    else this.#parts.log.warn({ err }, 'delivering webhooks failed; retrying');
  }
}

const internalError = { outcome: 'internal_error', httpStatus: null, answer: '' } as const;

/** `gone`: there is nothing left to send. `uncovered`: nothing that the endpoint still covers. */
type SendOutcome =
  | OutboundOutcome
  | { readonly kind: 'failed'; readonly reason: WebhookFailure }
  | { readonly kind: 'gone' }
  | { readonly kind: 'uncovered' };
type RecordedOutcome = Exclude<SendOutcome, { kind: 'aborted' } | { kind: 'uncovered' }>;
type WebhookRequest = Pick<OutboundRequest, 'method' | 'url' | 'headers' | 'body'>;
type Names = Pick<Attempt, 'outcome' | 'httpStatus' | 'answer'>;

function namesOf(outcome: RecordedOutcome): Names {
  if (outcome.kind === 'gone') return { outcome: 'payload_gone', httpStatus: null, answer: '' };
  if (outcome.kind === 'failed') return { outcome: outcome.reason, httpStatus: null, answer: '' };
  const { status, body } = outcome;
  // Postgres cannot store NUL.
  const answer = body.toString('utf8').replaceAll('\0', '\ufffd');
  const isDelivered = status >= 200 && status < 300;
  return { outcome: isDelivered ? 'delivered' : 'http_error', httpStatus: status, answer };
}
