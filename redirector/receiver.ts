/** What a redirector receives by POST that is no visit. */
import type { HttpResponse } from '#common/http/uws.ts';

/** Where a request came from. */
export interface Sender {
  /** Of the request, as it was sent, in lower case. */
  readonly host: string;
  readonly ip: string;
}

export interface Receiver {
  /** Reads the body and answers. @param isLast whether the connection must end with the answer, called when there is one. */
  receive(res: HttpResponse, sender: Sender, isLast: () => boolean): void;
}

/** By path. */
export type Receivers = ReadonlyMap<string, Receiver>;
