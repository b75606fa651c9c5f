/** POST /sdk/links: creates a link for the API key's own app, with destinations that the app allows. */
import { DAY_MS } from '#common/durations.ts';
import { forbidden, invalid, invalidFields, Rejection } from '#common/http/rejection.ts';
import { type LinkRow, linkColumns } from '#common/links/link.ts';
import { createLink } from '#common/links/link-creation.ts';
import { newSdkLinkBody, sdkLinkFaults } from '#common/links/link-fields.ts';
import { ruleDestinations } from '#common/links/link-rule.ts';
import { violatedConstraint } from '#common/stores/postgres.ts';
import { allApps, type Tenancy } from '#common/stores/tenancy.ts';
import { sdkRoute } from '#gateway/deps.ts';
import { SDK_LINKS_PER_DAY } from '#gateway/limit-chain.ts';
import { sdkLinkAnswer, sdkLinkExample, sdkLinkSchema } from './sdk-link.ts';

/** Fields that determine a visitor's destination. */
const destinations = ['ios_url', 'android_url', 'fallback_url', 'expired_url'] as const;
const foreignHost = 'points to a host that is not in the app’s allowed_destination_hosts';

/** With the limit per day, this bounds what a public key can store. */
const BODY_BYTES_MAX = 16_384;

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
    'If a link with the external_id was created here, it is returned with 200. An external_id of any other link, or of one ' +
    'that has a password, gives 400. An app whose settings.sdk_links is false gives 403. ' +
    `An app gets at most ${SDK_LINKS_PER_DAY} links per day (UTC) this way, and one network at most a fifth of them.`,
  body: newSdkLinkBody,
  bodyBytesMax: BODY_BYTES_MAX,
  bodyFaults: sdkLinkFaults,
  bodyExample: { path: '/invite/7', campaign: 'invites', external_id: 'invite-7' },
  answers: {
    200: { description: 'The existing link with this external_id.', schema: sdkLinkSchema, example: sdkLinkExample },
    201: { description: 'The new link.', schema: sdkLinkSchema, example: sdkLinkExample },
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
      if (known) return { status: 200, body: sdkLinkAnswer(known, shortUrl) };
    }
    const creation = await createLink({ tenancy, clock }, app, 'sdk', body).catch((error: unknown) => {
      if (violatedConstraint(error) === 'sdk_links_per_day') return dayIsFull(clock());
      throw error;
    });
    if (creation instanceof Rejection) return creation;
    switch (creation.kind) {
      case 'created': {
        const { link } = creation;
        await announce({ kind: 'link', host: link.host, short_code: link.short_code });
        return { status: 201, body: sdkLinkAnswer(link, shortUrl) };
      }
      case 'taken': {
        // Another request created it in the meantime. Which of the two unique indexes reports the conflict is
        // arbitrary, because a retry violates both.
        const known =
          typeof body.external_id === 'string' ? await byExternalId(tenancy, app, body.external_id) : undefined;
        if (known) return { status: 200, body: sdkLinkAnswer(known, shortUrl) };
        return invalid(creation.field, 'is already used by another link of this app');
      }
      case 'loops':
        return invalidFields(creation.faults);
      case 'no_app':
        return forbidden('The app was deleted.');
    }
  },
});

function dayIsFull(nowMs: number): Rejection {
  const message = `This app has its ${SDK_LINKS_PER_DAY} links of today (UTC) that are created with its API key. Use POST /links with a server key for more.`;
  const retryAfterSeconds = Math.ceil((DAY_MS - (nowMs % DAY_MS)) / 1000);
  return new Rejection('RATE_LIMITED', message, { retryAfterSeconds });
}

function isAllowed(url: string | null | undefined, hosts: readonly string[]): boolean {
  if (!url) return true;
  return URL.canParse(url) && hosts.includes(new URL(url).hostname);
}

/** The app's key is public, so it finds only what was created with it, and nothing that a password protects. */
async function byExternalId(
  tenancy: Tenancy,
  app: { readonly organization_id: string; readonly app_id: string },
  externalId: string,
): Promise<LinkRow | undefined> {
  const sql = `SELECT ${linkColumns} FROM links l JOIN apps a ON a.id = l.app_id
    WHERE l.organization_id = ANY ($1) AND l.app_id = $2 AND l.external_id = $3 AND l.source = 'sdk' AND NOT l.has_password
      AND l.deleted_at IS NULL`;
  const [row] = await tenancy.within(allApps([app.organization_id]), (tenant) =>
    tenant.query<LinkRow>(sql, [app.app_id, externalId]),
  );
  return row;
}
