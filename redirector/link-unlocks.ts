/**
 * Handles passwords that visitors enter: the form, its limits, and the comparison. Comparisons run one at a time,
 * because each takes a thread of the pool that also writes the journal.
 */
import type { Clock } from '#common/clock.ts';
import { limitAddress } from '#common/http/peer.ts';
import type { HttpResponse } from '#common/http/uws.ts';
import { isLinkPassword, LINK_PASSWORD_CHARACTERS_MAX } from '#common/links/link-password.ts';
import { LocalWindows } from '#common/rate-limit.ts';

export const UNLOCK_PATH = '/-/unlock';

export const unlockLimits = {
  bodyBytesMax: 16_384,
  /** Maximum attempts per minute and process: of an address at a link … */
  perAddressMax: 10,
  /** … of all addresses at a link … */
  perLinkMax: 120,
  /** … and of an address at all links, so that one visitor cannot fill the queue of every app's visitors. */
  perAddressAtAllMax: 30,
  waitingMax: 16,
} as const;

/** The contents of a form: the path and the query of the visit, and the password. */
export interface UnlockForm {
  readonly path: string;
  /** Without the question mark. */
  readonly query: string;
  readonly password: string;
}

export class LinkUnlocks {
  readonly #clock: Clock;
  readonly #windows = new LocalWindows();
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Reads the body.
   * @param onForm called with null if the body is not a form; not called if the visitor disconnects.
   */
  read(res: HttpResponse, onForm: (form: UnlockForm | null, isTooLarge: boolean) => void): void {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let isOver = false;
    res.onAborted(() => {
      isOver = true;
    });
    res.onData((chunk, isEnd) => {
      if (isOver) return;
      bytes += chunk.byteLength;
      const isTooLarge = bytes > unlockLimits.bodyBytesMax;
      if (!isTooLarge) chunks.push(Buffer.from(chunk.slice(0)));
      if (!isEnd && !isTooLarge) return;
      isOver = true;
      onForm(isTooLarge ? null : formOf(Buffer.concat(chunks).toString()), isTooLarge);
    });
  }

  /** `limited`: too many attempts; this one is not compared. Never rejects. */
  async check(linkId: string, hash: string, ip: string, password: string): Promise<'right' | 'wrong' | 'limited'> {
    const nowMs = this.#clock();
    const address = limitAddress(ip);
    // An address over its limits must not use up the link's limit.
    if (this.#windows.take(`${linkId} ${address}`, nowMs).count > unlockLimits.perAddressMax) return 'limited';
    if (this.#windows.take(address, nowMs).count > unlockLimits.perAddressAtAllMax) return 'limited';
    if (this.#windows.take(linkId, nowMs).count > unlockLimits.perLinkMax) return 'limited';
    if (this.#waiting >= unlockLimits.waitingMax) return 'limited';
    this.#waiting++;
    const compared = this.#last.then(() => isLinkPassword(hash, password)).catch(() => false);
    this.#last = compared;
    const isRight = await compared;
    this.#waiting--;
    return isRight ? 'right' : 'wrong';
  }
}

function formOf(body: string): UnlockForm | null {
  const form = new URLSearchParams(body);
  const [link, password] = [form.get('link'), form.get('password')];
  if (link === null || !link.startsWith('/') || password === null) return null;
  if (password.length > LINK_PASSWORD_CHARACTERS_MAX) return null;
  const mark = link.indexOf('?');
  return mark === -1
    ? { path: link, query: '', password }
    : { path: link.slice(0, mark), query: link.slice(mark + 1), password };
}
