/**
 * Which hosts may get a certificate: a proxy checks this before it requests one, so that neither strangers nor a tenant
 * can make it request so many that the certificate authority refuses the others.
 */
import type { Postgres } from '#common/stores/postgres.ts';
import { type HostRules, isOwnHost } from './host.ts';

/** New hosts of an organization per day. Let's Encrypt limits certificates per registered domain, so own hosts are scarcer. */
const OWN_HOSTS_PER_DAY = 5;
const OTHER_HOSTS_PER_DAY = 20;

const mayGet = 'SELECT signpost_may_get_certificate($1, $2, $3) AS is_allowed';

/**
 * Whether an app is served on this host, case-insensitively, and the host is known or the organization may still ask for
 * a new one today, by Postgres' clock. @throws PostgresUnavailable
 */
async function isAllowed(db: Pick<Postgres, 'query'>, rules: HostRules, host: string): Promise<boolean> {
  const isOwn = isOwnHost(rules, host);
  const values = [host, isOwn, isOwn ? OWN_HOSTS_PER_DAY : OTHER_HOSTS_PER_DAY];
  const [row] = await db.query<{ is_allowed: boolean }>(mayGet, values, 'may_get_certificate');
  return row?.is_allowed === true;
}

/** The check of a proxy that issues certificates on demand: `/tls-allowed?domain=HOST`. */
export function certificateQuestion(db: Pick<Postgres, 'query'>, rules: HostRules) {
  return {
    '/tls-allowed': async (query: URLSearchParams) => {
      const host = (query.get('domain') ?? '').toLowerCase();
      return host !== '' && isAllowed(db, rules, host);
    },
  };
}
