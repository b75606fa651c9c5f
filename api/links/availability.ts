/** Whether a short code is free, for forms that check it as it is typed. Only creating the link is decisive. */
import { Type } from 'typebox';
import { absent, tenantOf } from '#api/access.ts';
import { route } from '#api/route.ts';
import { linkWithCode } from '#common/links/link.ts';
import { linkFaults, linkFields } from '#common/links/link-fields.ts';

const reasons = ['taken', 'deleted', 'reserved'] as const;
type Reason = (typeof reasons)[number];

const holder = `SELECT a.id AS app_id, l.id AS link_id, l.deleted_at IS NULL AS is_live
  FROM apps a LEFT JOIN ${linkWithCode('$3')} ON true LEFT JOIN links l ON l.id = h.link_id
 WHERE a.organization_id = ANY ($1) AND a.id = $2 AND a.deleted_at IS NULL`;

interface Row {
  readonly app_id: string;
  readonly link_id: string | null;
  readonly is_live: boolean | null;
}

export const checkShortCode = route({
  method: 'GET',
  path: '/links/availability',
  operationId: 'checkShortCode',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'Links',
  summary: 'Check whether a short code is free',
  description: 'The code of a deleted link stays reserved, so that an old link never leads to a new destination.',
  query: Type.Object(
    { app_id: Type.String({ maxLength: 64 }), short_code: linkFields.short_code },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'Whether a link of this app may get the code.',
      schema: Type.Object(
        {
          is_available: Type.Boolean(),
          reason: Type.Unsafe<Reason | null>({
            type: ['string', 'null'],
            enum: [...reasons, null],
            description:
              'Why the code is not available: another link has it, a deleted link had it, or it is reserved for the service.',
          }),
          link_id: Type.Unsafe<string | null>({ type: ['string', 'null'], description: 'The link that has the code.' }),
        },
        { title: 'Availability' },
      ),
      example: { is_available: false, reason: 'taken', link_id: 'lnk_01j9z3k4m5n6p7q8r9s0t1v2w3' },
    },
  },
  async handle({ tenancy }, { caller, query: { app_id, short_code } }) {
    return tenancy.within(tenantOf(caller), async (tenant) => {
      const [found] = await tenant.query<Row>(holder, [app_id, short_code]);
      if (!found) return absent(tenant, 'app', app_id);
      const answer = (reason: Reason | null, link_id: string | null = null) => ({
        status: 200 as const,
        body: { is_available: reason === null, reason, link_id },
      });
      if (linkFaults({ short_code }).length > 0) return answer('reserved');
      if (found.link_id === null) return answer(null);
      return found.is_live ? answer('taken', found.link_id) : answer('deleted');
    });
  },
});
