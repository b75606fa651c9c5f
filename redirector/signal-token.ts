/**
 * The token with which a tap page proves that its click is genuine: the click's id, the hours for which its signals are
 * stored, and a signature of both. It expires BEACON_AGE_MAX_MS after the click, and is valid only for that click.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import { isId, timeOfId } from '#common/ids.ts';

export const BEACON_AGE_MAX_MS = 300_000;
/** Maximum clock difference between two redirectors. */
const CLOCK_SKEW_MS = 5_000;
/** 96 bits. */
const SIGNATURE_CHARS = 16;
const shape = /^(clk_[0-9a-z]{26})\.(\d{1,2})\.([\w-]{16})$/;

export interface SignedClick {
  readonly click_id: string;
  readonly hours: number;
}

export class SignalTokens {
  readonly #key: Buffer;

  /** @param key ADDRESS_KEY, the same on every edge; signing and hashing use different derived keys. */
  constructor(key: string) {
    this.#key = hash('sha256', `signals of a tap page\n${key}`, 'buffer');
  }

  sign(clickId: string, hours: number): string {
    return `${clickId}.${hours}.${this.#signature(clickId, hours)}`;
  }

  /** Null for a token that this installation did not issue, or that has expired. */
  verify(token: string, nowMs: number): SignedClick | null {
    const [, click_id = '', hours = '', signature = ''] = shape.exec(token) ?? [];
    if (!isId('clk', click_id)) return null;
    const ageMs = nowMs - timeOfId(click_id);
    if (ageMs < -CLOCK_SKEW_MS || ageMs > BEACON_AGE_MAX_MS) return null;
    const expected = Buffer.from(this.#signature(click_id, Number(hours)));
    return timingSafeEqual(expected, Buffer.from(signature)) ? { click_id, hours: Number(hours) } : null;
  }

  #signature(clickId: string, hours: number): string {
    return createHmac('sha256', this.#key).update(`${clickId} ${hours}`).digest('base64url').slice(0, SIGNATURE_CHARS);
  }
}
