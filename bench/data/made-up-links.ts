/**
 * The tenants, apps and links of the generated records. Each id is a digest of a number, so that ClickHouse and
 * Postgres generate the same ids independently.
 */
import type { ClickHouse } from '#clickhouse/client.ts';
import type { Postgres } from '#common/stores/postgres.ts';

export const tenants = 1_000;
export const appsOfTenant = 3;
const bigTenantLinks = 10_000;
const tenantLinks = 500;
const bigTenantShare = 0.1;
const bigTenantPersons = 60_000;
/** The shares of all tenants but the first decrease with this power of their number. */
const tenantFall = 0.7;

/** A well-formed id with hexadecimal digits. `hexOfMd5` is SQL that returns an MD5 as text. */
const idOf = (prefix: string, hexOfMd5: string) => `concat('${prefix}_0', substr(${hexOfMd5}, 1, 25))`;
const inClickHouse = (text: string) => `lower(hex(MD5(${text})))`;
const inPostgres = (text: string) => `md5(${text})`;

export const tenantOf = (number: number) => `SELECT ${idOf('org', inClickHouse(`'org:${number}'`))} AS organization_id`;

function harmonic(count: number, power: number): number {
  let sum = 0;
  for (let rank = 1; rank <= count; rank++) sum += rank ** -power;
  return sum;
}

/**
 * Creates the table `made_links`: one row per link, in the storage order of raw rows, with its share of all clicks; and
 * for each app a row without a link, with the share of organic installs and events.
 */
export async function makeLinks(client: ClickHouse): Promise<void> {
  await client.command('DROP TABLE IF EXISTS made_links SYNC');
  await client.command(
    `CREATE TABLE made_links (organization_id String, app_id String, link_id String, org UInt32, app UInt32, link UInt32,
  persons UInt32, share Float64) ENGINE = MergeTree ORDER BY (organization_id, app_id, link_id)`,
  );
  const others = (1 - bigTenantShare) / harmonic(tenants - 1, tenantFall);
  await client.command(
    `INSERT INTO made_links SELECT
  ${idOf('org', inClickHouse("concat('org:', toString(org))"))} AS organization_id,
  ${idOf('app', inClickHouse("concat('app:', toString(org), ':', toString(app))"))} AS app_id,
  if(link < links, ${idOf('lnk', inClickHouse("concat('lnk:', toString(org), ':', toString(link))"))}, '') AS link_id,
  org, app, link, greatest(20, toUInt32(${bigTenantPersons / bigTenantShare} * tenant_share)) AS persons,
  tenant_share * if(link < links, 1 / (link + 1) / if(org = 0, ${harmonic(bigTenantLinks, 1)}, ${harmonic(tenantLinks, 1)}), 1 / ${appsOfTenant}) AS share
FROM (SELECT number AS org, if(org = 0, ${bigTenantLinks}, ${tenantLinks}) AS links,
    if(org = 0, ${bigTenantShare}, ${others} * pow(greatest(org, 1), -${tenantFall})) AS tenant_share,
    arrayJoin(range(links + ${appsOfTenant})) AS link, if(link < links, link % ${appsOfTenant}, link - links) AS app
  FROM numbers(${tenants}))
ORDER BY organization_id, app_id, link_id`,
    {},
    { max_insert_block_size: 2_000_000, min_insert_block_size_rows: 2_000_000, min_insert_block_size_bytes: 0 },
  );
}

/** Inserts the same tenants, apps and links into Postgres, unless they exist. */
export async function storeTenants(db: Postgres): Promise<void> {
  const [there] = await db.query<{ n: number }>('SELECT count(*)::int AS n FROM organizations');
  if ((there?.n ?? 0) >= tenants) return;
  const org = idOf('org', inPostgres("'org:' || org"));
  const app = idOf('app', inPostgres("'app:' || org || ':' || app"));
  // Maintaining the indexes for search and counts is not measured, and would be most of the cost of so many inserts.
  await db.execute('ALTER TABLE links DISABLE TRIGGER USER');
  await db.execute('DROP INDEX IF EXISTS links_text');
  await db.execute(
    `INSERT INTO organizations (id, name) SELECT ${org}, 'Tenant ' || org FROM generate_series(0, ${tenants - 1}) AS org`,
  );
  await db.execute(
    `INSERT INTO apps (host_verified_at, id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
SELECT now(), ${app}, ${org}, 'App ' || app, 'a' || org || '-' || app || '.localhost', '{}', '', decode(md5('key:' || org || ':' || app), 'hex'), '', now(), now()
  FROM generate_series(0, ${tenants - 1}) AS org, generate_series(0, ${appsOfTenant - 1}) AS app`,
  );
  const step = 50;
  for (let from = 0; from < tenants; from += step) {
    await db.execute(
      `INSERT INTO links (id, organization_id, app_id, short_code, path, campaign, source, title, fallback_url, created_at, updated_at)
SELECT ${idOf('lnk', inPostgres("'lnk:' || org || ':' || link"))}, ${org}, ${app}, 'c' || lpad(link::text, 6, '0'), '/sale/' || link,
       CASE WHEN link % 10 >= 3 THEN 'campaign_' || link % 40 END, 'dashboard', 'Sale ' || link, 'https://example.com/' || link, now(), now()
  FROM generate_series($1::int, $2::int) AS org,
       LATERAL (SELECT link, link % ${appsOfTenant} AS app FROM generate_series(0, CASE WHEN org = 0 THEN ${bigTenantLinks} ELSE ${tenantLinks} END - 1) AS link) AS its`,
      [from, from + step - 1],
    );
  }
  await db.execute('ANALYZE links');
}

const usersWanted = 64;

/** Stores one user for each of the first tenants. @returns their ids, that of the largest tenant first. */
export async function storeUsers(db: Postgres): Promise<string[]> {
  const user = idOf('usr', inPostgres("'usr:' || org"));
  const org = idOf('org', inPostgres("'org:' || org"));
  const from = `FROM generate_series(0, ${usersWanted - 1}) AS org`;
  await db.execute(
    `INSERT INTO users (id, email, name, created_at) SELECT ${user}, 'u' || org || '@example.com', 'User', now() ${from} ON CONFLICT DO NOTHING`,
  );
  await db.execute(
    `INSERT INTO memberships (user_id, organization_id, role) SELECT ${user}, ${org}, 'viewer' ${from} ON CONFLICT DO NOTHING`,
  );
  const rows = await db.query<{ id: string }>(`SELECT ${user} AS id ${from} ORDER BY org`);
  return rows.map((row) => row.id);
}
