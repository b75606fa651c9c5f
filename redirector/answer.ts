/** Writes responses. Only text from this program or from the URL parser reaches a header. */
import { endHead, type HttpResponse } from '#common/http/uws.ts';
import type { LinkedApp } from '#common/links/link-snapshot.ts';
import { type AnswerHeaders, pageHeaders, refusalHeaders } from '#common/redirect/answer-headers.ts';
import { ownPage, type PageReason, refusals } from '#common/redirect/page.ts';

/** How to send a response. */
export interface ResponseOptions {
  readonly isHead: boolean;
  readonly wantsJson: boolean;
  /** Whether the connection must end with this response, because the process is stopping. */
  readonly isLast: boolean;
}

/** @param redirect redirectHead and output of the URL parser: ASCII without control characters. */
export function sendRedirect(res: HttpResponse, redirect: string, isLast: boolean): void {
  res.writeStatus(redirect);
  res.endWithoutBody(0, isLast);
}

export function sendText(
  res: HttpResponse,
  status: string,
  text: string,
  manner: ResponseOptions,
  headers: AnswerHeaders,
): void {
  res.writeStatus(status);
  for (const [name, value] of Object.entries(headers)) res.writeHeader(name, value);
  if (manner.isHead) endHead(res, Buffer.byteLength(text), manner.isLast);
  else res.end(text, manner.isLast);
}

/** @param policy the page's Content-Security-Policy; if empty, that of pages without scripts. */
export function sendPage(res: HttpResponse, html: string, manner: ResponseOptions, policy = ''): void {
  sendText(res, '200 OK', html, manner, pageHeaders(policy));
}

/** @param app the app of the host, if known: it may have its own page. */
export function sendRefusal(
  res: HttpResponse,
  reason: PageReason,
  manner: ResponseOptions,
  app: LinkedApp | null = null,
): void {
  const { status, html, json } = refusals[reason];
  const text = manner.wantsJson ? json : (ownPage(reason, app) ?? html);
  sendText(res, status, text, manner, refusalHeaders(reason, manner.wantsJson, app));
}
