/** The hosts that an app may have, and which of them need verification. */
import { isIP } from 'node:net';
import type { Config } from '#common/process/settings.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { labelSkeleton, ownLabelFault } from './own-label.ts';

const LABEL_CHARACTERS_MAX = 40;

/** The hosts of this installation itself. */
export interface HostRules {
  /** Apps without a host get one under it; every host under it belongs to the installation. */
  readonly domain: string;
  /** The domain itself, its www, and the host of the API. */
  readonly reserved: ReadonlySet<string>;
}

export function hostRules(config: Pick<Config, 'SHORT_LINK_DOMAIN' | 'API_PUBLIC_URL' | 'API_HOST'>): HostRules {
  const domain = config.SHORT_LINK_DOMAIN;
  const api = config.API_PUBLIC_URL === '' ? config.API_HOST : new URL(config.API_PUBLIC_URL).hostname;
  const reserved = [domain, `www.${domain}`, api.toLowerCase()].filter((host) => isIP(host) === 0);
  return { domain, reserved: new Set(reserved) };
}

/** Whether the host belongs to the installation and therefore needs no verification. */
export function isOwnHost({ domain }: HostRules, host: string): boolean {
  return host.endsWith(`.${domain}`);
}

/** Name and expected value of a host's TXT record. */
export function hostRecord(host: string, appId: string): { record_name: string; record_value: string } {
  return { record_name: `_signpost.${host}`, record_value: `signpost-app=${appId}` };
}

/** A host label made from a name: its letters and digits in ASCII, dashes between them. */
export function hostLabel(name: string): string {
  const label = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, LABEL_CHARACTERS_MAX)
    .replaceAll(/^-+|-+$/g, '');
  return label === '' ? 'app' : label;
}

/** Why an app of this organization cannot have the host; null if it can. `appId` is null for a new app. */
export async function hostFault(
  tenant: TenantQueries,
  rules: HostRules,
  host: string,
  organizationId: string,
  appId: string | null,
): Promise<string | null> {
  if (rules.reserved.has(host)) return 'is reserved for the service itself';
  const label = isOwnHost(rules, host) ? labelOf(rules, host) : null;
  const fault = label === null ? null : ownLabelFault(label, rules.domain);
  if (fault !== null) return fault;
  const sql = 'SELECT signpost_host_is_taken($2, $3, $4) AS taken WHERE $3 = ANY ($1)';
  const [row] = await tenant.query<{ taken: boolean }>(sql, [host, organizationId, appId]);
  if (row?.taken ?? false) return 'is taken';
  return label !== null && (await isAlike(tenant, rules, label, organizationId))
    ? 'looks like the host of another organization'
    : null;
}

const labelOf = ({ domain }: HostRules, host: string) => host.slice(0, -domain.length - 1);

/** Whether people would take the host for one of another organization. */
async function isAlike(
  tenant: TenantQueries,
  rules: HostRules,
  label: string,
  organizationId: string,
): Promise<boolean> {
  const skeleton = labelSkeleton(label);
  const sql = 'SELECT signpost_hosts_like($2, $3, $4) AS host WHERE $4 = ANY ($1)';
  const values = [`${skeleton}.${rules.domain}`, rules.domain, organizationId];
  const others = await tenant.query<{ host: string }>(sql, values);
  return others
    .map(({ host }) => labelOf(rules, host))
    .some((other) => other !== label && labelSkeleton(other) === skeleton);
}
