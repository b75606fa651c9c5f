/** Receives POST requests that are not visits. */
import type { HttpResponse } from '#common/http/uws.ts';

/** The origin of a request. */
export interface Sender {
  /** The Host of the request, in lower case. */
  readonly host: string;
  readonly ip: string;
}

export interface Receiver {
  /**
   * Reads the body and answers.
   * @param isLast returns whether the connection must end with the answer; called when the answer is ready.
   */
  receive(res: HttpResponse, sender: Sender, isLast: () => boolean): void;
}

/** The receivers by path. */
export type Receivers = ReadonlyMap<string, Receiver>;
