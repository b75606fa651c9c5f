/** Rules for the URL of an endpoint. */
import { isIP } from 'node:net';
import { invalid, type Rejection } from '#common/http/rejection.ts';
import { urlFault } from '#common/links/web-address.ts';
import type { Config } from '#common/process/settings.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';

/** That of the column. */
const URL_CHARACTERS_MAX = 2_048;

/** Null for a URL that may be called. Its host name is checked at each delivery, when it is resolved. */
export type UrlRule = (url: string) => Rejection | null;

export function urlRuleWith(config: Pick<Config, 'WEBHOOK_HTTP' | 'WEBHOOK_ALLOWED_NETWORKS'>): UrlRule {
  const reachable = new ReachableAddresses(config.WEBHOOK_ALLOWED_NETWORKS);
  return (url) => {
    const asHttps = config.WEBHOOK_HTTP ? url.replace(/^http:/i, 'https:') : url;
    const fault = urlFault(asHttps, URL_CHARACTERS_MAX);
    if (fault !== null) return invalid('url', fault);
    const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1');
    if (isIP(host) !== 0 && !reachable.has(host))
      return invalid('url', 'must not point to an address that is not public');
    return null;
  };
}
