import { randomInt } from 'node:crypto';
import { chooseOrganization, refuseWrite } from '#api/access.ts';
import type { Note, Noted } from '#api/audit-trail.ts';
import type { ApiDeps } from '#api/deps.ts';
import { changingRoute } from '#api/route.ts';
import { newApiKey } from '#common/api-key.ts';
import { forbidden, invalid, invalidFields, Rejection } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { linkedAppOf } from '#common/links/link-snapshot.ts';
import { appLoops } from '#common/redirect/loops.ts';
import { violatedConstraint } from '#common/stores/postgres.ts';
import { allApps } from '#common/stores/tenancy.ts';
import { type AppRow, appAnswer, appColumns, appExample, appSchema } from './app.ts';
import { type AppFields, appFaults, changedApp, emptyApp, newAppBody } from './fields.ts';
import { hostFault, hostLabel, isOwnHost } from './host.ts';

export const createAppRoute = changingRoute({
  method: 'POST',
  path: '/apps',
  operationId: 'createApp',
  caller: 'user',
  scope: 'apps:write',
  limit: 'general',
  tag: 'Apps',
  summary: 'Create an app',
  description: 'The answer contains the API key.',
  body: newAppBody,
  bodyFaults: appFaults,
  bodyExample: { name: 'Shop', ios: appExample.ios, fallback_url: appExample.fallback_url },
  answers: { 201: { description: 'The new app.', schema: appSchema, example: appExample } },
  handle: async (deps, { caller, note, body }) => {
    const { organization_id: asked, ...given } = body;
    const host = given.host ?? `${hostLabel(given.name)}.${deps.hosts.domain}`;
    const fields = changedApp({ ...emptyApp, name: '', host: '' }, { ...given, host });
    if ('rejection' in fields) return fields.rejection;
    const organizationId = await chooseOrganization(deps.db, caller, asked);
    if (organizationId instanceof Rejection) return organizationId;
    const denied = refuseWrite(caller, organizationId);
    if (denied) return denied;
    if (caller.key?.app_ids) return forbidden('This server key is limited to some apps, so it cannot create new ones.');

    const api_key = newApiKey();
    const app = await insertFree({ ...deps, note }, organizationId, fields, api_key, given.host === undefined);
    if (app instanceof Rejection) return app;
    await deps.announce({ kind: 'app', host: app.app.host });
    return { status: 201, body: appAnswer(app.app, deps.hosts, { api_key }), noted: app.noted };
  },
});

const ATTEMPTS_MAX = 5;

type CreationDeps = ApiDeps & { readonly note: Note };

interface NewApp {
  readonly app: AppRow;
  readonly noted: Noted;
}

/** Inserts the app. If the host derived from its name is taken, a number is appended. */
async function insertFree(
  deps: CreationDeps,
  organizationId: string,
  fields: AppFields,
  apiKey: string,
  isHostOurs: boolean,
): Promise<NewApp | Rejection> {
  let { host } = fields;
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const app = await insert(deps, organizationId, { ...fields, host }, apiKey);
    if (typeof app !== 'string') return app;
    if (!isHostOurs) return invalid('host', app);
    host = `${hostLabel(fields.name)}-${randomInt(1_000, 1_000_000)}.${deps.hosts.domain}`;
  }
  throw new Error(`${ATTEMPTS_MAX} hosts with random numbers in a row were taken`);
}

/** Of an organization, deleted ones not counted. Each has a host. */
const APPS_MAX = 100;

const insertion = `
  INSERT INTO apps (id, organization_id, name, host, ios, android, fallback_url, allowed_destination_hosts, settings, pages,
                    api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at, host_verified_at)
  SELECT $2, o.id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $15 FROM unnest($1::text[]) AS o (id)
   WHERE signpost_has_room('apps', o.id, ${APPS_MAX})
  RETURNING ${appColumns}`;

/** The new app, or the reason why it cannot have the host. */
async function insert(
  { tenancy, clock, apiKeys, hosts, note }: CreationDeps,
  organizationId: string,
  fields: AppFields,
  apiKey: string,
): Promise<NewApp | Rejection | string> {
  const nowMs = clock();
  const id = newId('app', nowMs);
  const key = apiKeys.store(apiKey, id);
  const { name, host, ios, android, fallback_url, allowed_destination_hosts, settings, pages } = fields;
  const given = [name, host, ios, android, fallback_url, allowed_destination_hosts, settings, pages];
  const stored = [key.api_key_ciphertext, key.api_key_hash, key.api_key_preview, new Date(nowMs)];
  const verifiedAt = isOwnHost(hosts, host) ? new Date(nowMs) : null;
  try {
    return await tenancy.within(allApps([organizationId]), async (tenant) => {
      const fault = await hostFault(tenant, hosts, host, organizationId, null);
      if (fault !== null) return fault;
      const linked = { id, organization_id: organizationId, ...fields, settings: { ...settings }, pages: null };
      const faults = await appLoops(tenant, linkedAppOf(linked), nowMs);
      if (faults.length > 0) return invalidFields(faults);
      const [row] = await tenant.query<AppRow>(insertion, [id, ...given, ...stored, verifiedAt]);
      if (!row) return invalid('body', `the organization has ${APPS_MAX} apps: delete one first`);
      return { app: row, noted: await note(tenant, row) };
    });
  } catch (error) {
    if (violatedConstraint(error) === 'apps_host_key') return 'is taken';
    if (violatedConstraint(error) === 'apps_organization_lives') return forbidden('This organization was deleted.');
    throw error;
  }
}
