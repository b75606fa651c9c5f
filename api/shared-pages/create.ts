import { Type } from 'typebox';
import { absent, chooseOrganization, refuseWrite, tenantOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { firstCharacters } from '#common/first-characters.ts';
import { invalid, Rejection, rateLimited } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { isStorableTime } from '#common/storable-time.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { plainName } from '#common/visible-text.ts';
import {
  newPageToken,
  type SharedPageRow,
  sharedPageAnswer,
  sharedPageColumns,
  sharedPageExample,
  sharedPageFields,
  tokenExample,
} from './shared-page.ts';

/** Maximum per organization. */
const PAGES_MAX = 200;
/** Expired pages are listed for this long. */
const KEPT_DAYS = 30;
const BUSY_SECONDS = 2;

const purge =
  'DELETE FROM shared_pages WHERE organization_id = ANY ($1) AND expires_at < (SELECT signpost_deletion_time()) - make_interval(days => $2)';
const insertion = `
  INSERT INTO shared_pages (id, organization_id, link_id, campaign, name, token_hash, password_hash, shows_revenue, created_by, created_at, expires_at)
  SELECT $2, o.id, $3, $4, $5, $6, $7, $8, $9, $10, $11 FROM unnest($1::text[]) AS o (id)
   WHERE signpost_has_room('shared_pages', o.id, ${PAGES_MAX})
  RETURNING ${sharedPageColumns}`;

interface Subject {
  readonly organization_id: string;
  /** The default name of the page. */
  readonly name: string;
}

export const createSharedPage = changingRoute({
  method: 'POST',
  path: '/shared-pages',
  operationId: 'createSharedPage',
  showsSecret: true,
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Shared pages',
  summary: 'Share the figures of a link or campaign',
  description:
    'Creates a page that anyone with its address can read without logging in. The address is returned only once. The page shows only the figures of this link or campaign.',
  body: Type.Object(
    {
      link_id: Type.Optional(Type.String({ description: 'Give either link_id or campaign.' })),
      campaign: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
      organization_id: Type.Optional(
        Type.String({
          description:
            'Organization of the campaign. Optional for a user who belongs to exactly one organization. With link_id, it must be that of the link.',
        }),
      ),
      name: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 100,
          format: 'visible',
          description: 'Default: the title or short code of the link, or the campaign.',
        }),
      ),
      password: Type.Optional(Type.String({ minLength: 8, maxLength: 1024 })),
      shows_revenue: Type.Optional(Type.Boolean({ description: 'Default: false.' })),
      expires_at: Type.Optional(Type.String({ format: 'date-time', description: 'Default: never.' })),
    },
    { additionalProperties: false, title: 'NewSharedPage' },
  ),
  bodyExample: { link_id: sharedPageExample.link_id, expires_at: sharedPageExample.expires_at },
  answers: {
    201: {
      description: 'The new page.',
      schema: Type.Object(
        {
          ...sharedPageFields,
          token: Type.String({ description: 'For POST /shared-figures. Returned only once.' }),
          url: Type.String({ description: 'The address of the page. Returned only once.' }),
        },
        { title: 'CreatedSharedPage' },
      ),
      example: {
        ...sharedPageExample,
        token: tokenExample,
        url: `https://links.example.com/shared#${tokenExample}`,
      },
    },
  },
  async handle({ db, tenancy, clock, dashboardUrl, sharedPages }, { caller, note, body, ip }) {
    const { link_id, campaign, password, expires_at, shows_revenue = false } = body;
    if ((link_id === undefined) === (campaign === undefined)) {
      return invalid('body', 'must have either link_id or campaign');
    }
    const nowMs = clock();
    if (expires_at !== undefined && !(isStorableTime(expires_at) && Date.parse(expires_at) > nowMs)) {
      return invalid('expires_at', 'must be in the future');
    }
    const subject =
      link_id === undefined
        ? await chooseOrganization(db, caller, body.organization_id).then((found) =>
            found instanceof Rejection ? found : { organization_id: found, name: campaign ?? '' },
          )
        : await tenancy.within(tenantOf(caller), (tenant) => linkOf(tenant, link_id));
    if (subject instanceof Rejection) return subject;
    if (body.organization_id !== undefined && body.organization_id !== subject.organization_id)
      return invalid('organization_id', 'is not the organization of the link');
    const denied = refuseWrite(caller, subject.organization_id);
    if (denied) return denied;
    const passwordHash = password === undefined ? null : await sharedPages.passwords.hash(password, ip);
    if (password !== undefined && passwordHash === null) return rateLimited(BUSY_SECONDS);
    const { token, hash } = newPageToken();
    const done = await tenancy.within(tenantOf(caller, [subject.organization_id]), async (tenant) => {
      await tenant.query(purge, [KEPT_DAYS]);
      const name = firstCharacters(body.name?.trim() ?? plainName(subject.name), 100);
      const times = [new Date(nowMs), expires_at === undefined ? null : new Date(expires_at)];
      const about = [link_id ?? null, campaign ?? null, name, hash, passwordHash, shows_revenue, caller.user_id];
      const [made] = await tenant.query<SharedPageRow>(insertion, [newId('shp', nowMs), ...about, ...times]);
      return made && { made, noted: await note(tenant, made) };
    });
    if (!done) return invalid('body', `the organization has ${PAGES_MAX} shared pages: delete one first`);
    const answer = { ...sharedPageAnswer(done.made), token, url: `${dashboardUrl}/shared#${token}` };
    return { status: 201, body: answer, noted: done.noted };
  },
});

async function linkOf(tenant: TenantQueries, id: string): Promise<Subject | Rejection> {
  const sql = `SELECT organization_id, coalesce(title, short_code) AS name FROM links
    WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;
  const [link] = await tenant.query<Subject>(sql, [id]);
  return link ?? absent(tenant, 'link', id);
}
