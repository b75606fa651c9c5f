/** An app's setting for learning links from its old service at their first visit. */
import { isObject } from '#common/json-object.ts';
import { pathOfCode } from './short-code.ts';

export interface MigrationSettings {
  /** The URL of the old service: an https URL that contains `{code}` once, in its path or query. */
  readonly url: string;
  /** The host to connect to instead of the URL's host; null: the URL's host. */
  readonly via: string | null;
  /** Allowed destination hosts of learned links. */
  readonly destination_hosts: readonly string[];
  /** Whether http destinations are changed to https. */
  readonly upgrade_http: boolean;
}

const place = '{code}';
const marker = 'signpostcode';

/** The setting of an app as it is stored; null: off. */
export function migrationSettingsOf(value: unknown): MigrationSettings | null {
  if (!isObject(value)) return null;
  const { url, via, destination_hosts, upgrade_http } = value;
  return {
    url: String(url),
    via: typeof via === 'string' ? via : null,
    destination_hosts: Array.isArray(destination_hosts) ? destination_hosts.map(String) : [],
    upgrade_http: upgrade_http === true,
  };
}

/** The URL of a code at the old service. */
export function addressOfCode(template: string, code: string): string {
  return template.replace(place, () => pathOfCode(code).slice(1));
}

/** The template with an example code; null if it has no placeholder in its path or query. */
export function exampleOfTemplate(template: string): URL | null {
  const [before = '', after, ...more] = template.split(place);
  if (after === undefined || more.length > 0 || template.includes('#')) return null;
  const text = before + marker + after;
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && (url.pathname + url.search).includes(marker) ? url : null;
}
