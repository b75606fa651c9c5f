/** The public URL of a link. */
import type { Config } from '#common/process/settings.ts';
import { pathOfCode } from './short-code.ts';

/** The URL of a short code on a host. */
export type ShortUrl = (host: string, shortCode: string) => string;

const defaultPorts = { http: 80, https: 443 } as const;

/** Port 0 means the scheme's default. */
export function shortUrlWith(config: Pick<Config, 'SHORT_LINK_SCHEME' | 'SHORT_LINK_PORT'>): ShortUrl {
  const { SHORT_LINK_SCHEME: scheme, SHORT_LINK_PORT: port } = config;
  const suffix = port === 0 || port === defaultPorts[scheme] ? '' : `:${port}`;
  return (host, shortCode) => `${scheme}://${host}${suffix}${pathOfCode(shortCode)}`;
}
