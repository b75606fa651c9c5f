/** The URLs of webhooks and postbacks contain secrets of their receivers: only callers who may change them see more than the host. */
import { refuseWrite } from '#api/access.ts';
import type { UserCaller } from '#api/route.ts';

export const urlForViewers = 'Viewers, and server keys without a scope to write, get only the host.';

/** @param url of an endpoint of the organization, or its template. */
export function shownUrl(caller: UserCaller, organizationId: string, url: string): string {
  return maySeeSecrets(caller, organizationId) ? url : hostOnly(url);
}

export function maySeeSecrets(caller: UserCaller, organizationId: string): boolean {
  return refuseWrite(caller, organizationId) === null;
}

function hostOnly(url: string): string {
  const [, scheme = 'https', host = ''] = /^([a-z]+):\/\/(?:[^/?#]*@)?([^/?#@]*)/i.exec(url) ?? [];
  return `${scheme}://${host}/…`;
}
