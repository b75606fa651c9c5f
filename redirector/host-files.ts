/** Files that every host has, and the association files for the app of a host. */
import type { HttpResponse } from '#common/http/uws.ts';
import type { LinkedApp } from '#common/links/link-snapshot.ts';
import { textHeaders } from '#common/redirect/answer-headers.ts';
import { androidAssociation, appleAssociation } from '#common/redirect/association.ts';
import { type ResponseOptions, sendText } from './answer.ts';

const robots = 'User-agent: *\nAllow: /\n';

/** Paths that an app's host answers in addition to its links. */
export const appPaths: ReadonlySet<string> = new Set([
  '/',
  '/.well-known/apple-app-site-association',
  '/apple-app-site-association',
  '/.well-known/assetlinks.json',
]);

/** @returns false if the path is not such a file. */
export function sendHostFile(res: HttpResponse, path: string, manner: ResponseOptions): boolean {
  if (path === '/robots.txt') {
    const headers = textHeaders('text/plain', { 'Cache-Control': 'public, max-age=86400' });
    sendText(res, '200 OK', robots, manner, headers);
  } else if (path === '/favicon.ico') {
    res.writeStatus('204 No Content').writeHeader('Cache-Control', 'public, max-age=86400');
    res.writeHeader('X-Content-Type-Options', 'nosniff');
    res.endWithoutBody(0, manner.isLast);
  } else return false;
  return true;
}

/** @returns false if the app has no such file. */
export function sendAssociation(res: HttpResponse, app: LinkedApp, path: string, manner: ResponseOptions): boolean {
  const json = path.endsWith('assetlinks.json') ? androidAssociation(app) : appleAssociation(app);
  if (json === null) return false;
  const headers = textHeaders('application/json', { 'Cache-Control': 'public, max-age=60' });
  sendText(res, '200 OK', json, manner, headers);
  return true;
}
