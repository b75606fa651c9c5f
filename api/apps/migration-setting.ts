/** The setting `migration` of an app: its schema, and rules that a schema can't express. */
import { Type } from 'typebox';
import type { FieldError } from '#common/http/rejection.ts';
import { isObject } from '#common/json-object.ts';
import { nullable } from '#common/links/link-fields.ts';
import { exampleOfTemplate, type MigrationSettings } from '#common/links/migration-settings.ts';
import { hostOf, URL_CHARACTERS_MAX, urlFault } from '#common/links/web-address.ts';

const host = Type.String({ minLength: 1, maxLength: 253 });

export const migrationField = nullable(
  Type.Object(
    {
      url: Type.String({
        minLength: 1,
        maxLength: URL_CHARACTERS_MAX,
        description: 'URL of the old service: an https URL with {code} in its path or query.',
      }),
      destination_hosts: Type.Array(host, {
        minItems: 1,
        maxItems: 100,
        description: 'Hosts to which learned links may lead.',
      }),
      via: Type.Optional(
        nullable(
          Type.String({
            minLength: 1,
            maxLength: 253,
            description:
              'Connect to this host instead of the host in the URL. The URL’s host is still used in the request and to verify the certificate. For services that answer only under your own host name.',
          }),
        ),
      ),
      upgrade_http: Type.Optional(
        nullable(Type.Boolean({ description: 'Learn destinations with http as https; default false.' })),
      ),
    },
    {
      additionalProperties: false,
      description:
        'Learn unknown codes from the app’s old service at their first visit. Replaced as a whole; default null: off.',
    },
  ),
);

export const storedMigrationSchema = nullable(
  Type.Object(
    {
      url: Type.String(),
      via: nullable(Type.String()),
      destination_hosts: Type.Array(Type.String()),
      upgrade_http: Type.Boolean(),
    },
    { description: 'The old service that is asked about an unknown code at its first visit. null: none.' },
  ),
);

/** Accepts anything; wrong types are reported by the schema. */
export function migrationFaults(setting: unknown): FieldError[] {
  if (!isObject(setting)) return [];
  const { url, via, destination_hosts } = setting;
  const faults: FieldError[] = [];
  const add = (field: string, message: string | null) => {
    if (message !== null) faults.push({ field: `settings.migration.${field}`, message });
  };
  if (typeof url === 'string') add('url', templateFault(url));
  if (typeof via === 'string' && hostOf(via) === null) add('via', 'must be a host name');
  for (const [at, one] of Array.isArray(destination_hosts) ? destination_hosts.entries() : [])
    if (typeof one === 'string' && hostOf(one) === null) add(`destination_hosts[${at}]`, 'must be a host name');
  return faults;
}

function templateFault(template: string): string | null {
  const example = exampleOfTemplate(template);
  if (example === null) return 'must be a URL without a fragment that has {code} once, in its path or query';
  return urlFault(example.href);
}

/** Rejects an old service on the app's own host, because the app would ask itself; otherwise null. */
export function ownHostFault(setting: MigrationSettings | null | undefined, ownHost: string): string | null {
  if (!setting) return null;
  if (setting.via !== null) return setting.via === ownHost ? 'must not be the host of the app' : null;
  // A trailing dot belongs to a host name only in DNS.
  return exampleOfTemplate(setting.url)?.hostname.replace(/\.$/, '') === ownHost
    ? 'must not be on the host of the app, unless via names the host of the old service'
    : null;
}

/** The setting as it is stored. It must be valid. */
export function storedMigration(given: {
  readonly url: string;
  readonly destination_hosts: readonly string[];
  readonly via?: string | null;
  readonly upgrade_http?: boolean | null;
}): MigrationSettings {
  return {
    url: given.url,
    via: given.via ? hostOf(given.via) : null,
    destination_hosts: [...new Set(given.destination_hosts.map((text) => hostOf(text) ?? ''))],
    upgrade_http: given.upgrade_http === true,
  };
}
