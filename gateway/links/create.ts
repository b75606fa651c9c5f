/** POST /sdk/links: creates a link for the API key's own app, with destinations that the app allows. */
import { forbidden, invalid, invalidFields } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkColumns, linkExample, linkSchema } from '#common/links/link.ts';
import { createLink } from '#common/links/link-creation.ts';
import { linkFaults, newSdkLinkBody } from '#common/links/link-fields.ts';
import { ruleDestinations } from '#common/links/link-rule.ts';
import { allApps, type Tenancy } from '#common/stores/tenancy.ts';
import { sdkRoute } from '#gateway/deps.ts';

/** Fields that determine a visitor's destination. */
const destinations = ['ios_url', 'android_url', 'fallback_url', 'expired_url'] as const;
const foreignHost = 'points to a host that is not in the app’s allowed_destination_hosts';

export const createSdkLink = sdkRoute({
  method: 'POST',
  path: '/sdk/links',
  operationId: 'createSdkLink',
  caller: 'app',
  limit: 'links',
  tag: 'SDK',
  summary: 'Create a link from an SDK',
  description:
    "Like POST /links, for the API key's own app. Destination hosts must be in the app's allowed_destination_hosts. " +
    'If a link with the external_id exists, it is returned with 200. An app whose settings.sdk_links is false gives 403.',
  body: newSdkLinkBody,
  bodyFaults: linkFaults,
  bodyExample: { path: '/invite/7', campaign: 'invites', external_id: 'invite-7' },
  answers: {
    200: { description: 'The existing link with this external_id.', schema: linkSchema, example: linkExample },
    201: { description: 'The new link.', schema: linkSchema, example: linkExample },
  },
  async handle({ tenancy, clock, announce, shortUrl }, { caller, body }) {
    const { app } = caller;
    if (app.settings.sdk_links === false)
      return forbidden('This app does not allow links to be created with its API key.', 'sdk_links_off');
    if (body.app_id !== undefined && body.app_id !== app.app_id)
      return forbidden('The API key belongs to another app.');
    const given = destinations.map((field) => ({ field, url: body[field] }));
    const disallowed = [...given, ...ruleDestinations(body.rules)].filter(
      ({ url }) => !isAllowed(url, app.allowed_destination_hosts),
    );
    if (disallowed.length > 0) return invalidFields(disallowed.map(({ field }) => ({ field, message: foreignHost })));
    if (typeof body.external_id === 'string') {
      const known = await byExternalId(tenancy, app, body.external_id);
      if (known) return { status: 200, body: linkAnswer(known, shortUrl) };
    }
    const creation = await createLink({ tenancy, clock }, app, 'sdk', body);
    switch (creation.kind) {
      case 'created': {
        const { link } = creation;
        await announce({ kind: 'link', host: link.host, short_code: link.short_code });
        return { status: 201, body: linkAnswer(link, shortUrl) };
      }
      case 'taken': {
        // Another request created it in the meantime. Which of the two unique indexes reports the conflict is
        // arbitrary, because a retry violates both.
        const known =
          typeof body.external_id === 'string' ? await byExternalId(tenancy, app, body.external_id) : undefined;
        if (known) return { status: 200, body: linkAnswer(known, shortUrl) };
        return invalid(creation.field, 'is already used by another link of this app');
      }
      case 'no_app':
        return forbidden('The app was deleted.');
    }
  },
});

function isAllowed(url: string | null | undefined, hosts: readonly string[]): boolean {
  if (!url) return true;
  return URL.canParse(url) && hosts.includes(new URL(url).hostname);
}

async function byExternalId(
  tenancy: Tenancy,
  app: { readonly organization_id: string; readonly app_id: string },
  externalId: string,
): Promise<LinkRow | undefined> {
  const sql = `SELECT ${linkColumns} FROM links l JOIN apps a ON a.id = l.app_id
    WHERE l.organization_id = ANY ($1) AND l.app_id = $2 AND l.external_id = $3 AND l.deleted_at IS NULL`;
  const [row] = await tenancy.within(allApps([app.organization_id]), (tenant) =>
    tenant.query<LinkRow>(sql, [app.app_id, externalId]),
  );
  return row;
}
