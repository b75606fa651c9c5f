import { changingRoute } from '#api/route.ts';
import { invalid, invalidFields, Rejection } from '#common/http/rejection.ts';
import { linkedAppOf } from '#common/links/link-snapshot.ts';
import { appLoops } from '#common/redirect/loops.ts';
import { violatedConstraint } from '#common/stores/postgres.ts';
import { type AppRow, appAnswer, appColumns, appExample, appParams, appSchema } from './app.ts';
import { changeApp } from './change.ts';
import { appChangesBody, appFaults, changedApp } from './fields.ts';
import { hostFault, isOwnHost } from './host.ts';

const write = `
  UPDATE apps SET name = $3, host = $4, ios = $5, android = $6, fallback_url = $7, allowed_destination_hosts = $8,
                  settings = $9, pages = $10, updated_at = $11, version = version + 1,
                  host_verified_at = CASE WHEN host = $4 THEN host_verified_at ELSE $12 END
   WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL RETURNING ${appColumns}`;

/**
 * Deleted links count too, because their codes are never reused. The app is locked, so no links are added in the
 * meantime.
 */
const codeWithCapitals = `
  SELECT short_code AS code FROM links
   WHERE organization_id = ANY ($1) AND app_id = $2 AND short_code <> lower(short_code COLLATE "C")
  UNION ALL
  SELECT code FROM link_codes
   WHERE organization_id = ANY ($1) AND app_id = $2 AND code <> lower(code COLLATE "C") LIMIT 1`;

export const updateAppRoute = changingRoute({
  method: 'PATCH',
  path: '/apps/{id}',
  operationId: 'updateApp',
  caller: 'user',
  scope: 'apps:write',
  limit: 'general',
  tag: 'Apps',
  summary: 'Update an app',
  description:
    'Omitted fields keep their value, including those inside ios, android and settings; null clears a field.',
  params: appParams,
  body: appChangesBody,
  bodyFaults: appFaults,
  bodyExample: { settings: { privacy_mode: 'no_ip' }, fallback_url: null },
  answers: { 200: { description: 'The updated app.', schema: appSchema, example: appExample } },
  handle: async (deps, { caller, note, params, body }) => {
    try {
      const change = await changeApp(deps, { caller, note }, params.id, async (tenant, before) => {
        const fields = changedApp(before, body);
        if ('rejection' in fields) return fields.rejection;
        const { name, host, ios, android, fallback_url, allowed_destination_hosts, settings, pages } = fields;
        if (host !== before.host) {
          const fault = await hostFault(tenant, deps.hosts, host, before.organization_id, before.id);
          if (fault !== null) return invalid('host', fault);
        }
        if (settings.codes_ignore_case === true && before.settings.codes_ignore_case !== true) {
          const [capital] = await tenant.query<{ code: string }>(codeWithCapitals, [before.id]);
          if (capital)
            return invalid('settings.codes_ignore_case', `must be false while a link has the code ${capital.code}`);
        }
        if (body.fallback_url !== undefined || host !== before.host) {
          const faults = await appLoops(
            tenant,
            linkedAppOf({ ...before, ...fields, settings: { ...settings }, pages: null }),
            deps.clock(),
          );
          if (faults.length > 0) return invalidFields(faults);
        }
        const given = [name, host, ios, android, fallback_url, allowed_destination_hosts, settings, pages];
        const now = new Date(deps.clock());
        const verifiedAt = isOwnHost(deps.hosts, host) ? now : null;
        const [after] = await tenant.query<AppRow>(write, [before.id, ...given, now, verifiedAt]);
        if (!after) throw new Error('an app that is locked was not updated');
        return after;
      });
      if (change instanceof Rejection) return change;
      const { after, noted } = change;
      return {
        status: 200,
        body: appAnswer(after, deps.hosts, { api_key: deps.apiKeys.show(after.api_key_ciphertext, after.id) }),
        noted,
      };
    } catch (error) {
      if (violatedConstraint(error) === 'apps_host_key') return invalid('host', 'is taken');
      throw error;
    }
  },
});
