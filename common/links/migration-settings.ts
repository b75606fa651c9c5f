/** An app's setting to learn links from the service that it leaves, by its visits. */
import { isObject } from '#common/json-object.ts';
import { pathOfCode } from './short-code.ts';

export interface MigrationSettings {
  /** Where the old service answers: an https URL that contains `{code}` once, in its path or query. */
  readonly url: string;
  /** The host whose addresses are connected to instead of those of the URL's host; null: those. */
  readonly via: string | null;
  /** Where learned links may lead. */
  readonly destination_hosts: readonly string[];
  /** Whether http destinations become https. */
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

/** The address at which the old service answers a code. */
export function addressOfCode(template: string, code: string): string {
  return template.replace(place, () => pathOfCode(code).slice(1));
}

/** The template as a URL with a code for the place of codes; null if it has no such place in its path or query. */
export function exampleOfTemplate(template: string): URL | null {
  const [before = '', after, ...more] = template.split(place);
  if (after === undefined || more.length > 0 || template.includes('#')) return null;
  const text = before + marker + after;
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && (url.pathname + url.search).includes(marker) ? url : null;
}
