import { Type } from 'typebox';
import { absent, organizationsOf, refuseOrganization, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import type { Rejection } from '#common/http/rejection.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import {
  type SharedPageRow,
  sharedPageAnswer,
  sharedPageColumns,
  sharedPageExample,
  sharedPageFields,
} from './shared-page.ts';

const from = `FROM shared_pages WHERE organization_id = ANY ($1) AND ($2::text IS NULL OR link_id = $2)
  AND ($3::text IS NULL OR campaign = $3)`;

export const listSharedPages = route({
  method: 'GET',
  path: '/shared-pages',
  operationId: 'listSharedPages',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Shared pages',
  summary: 'List shared pages',
  description: 'Newest first, without their addresses. Expired pages are listed for at least a month.',
  query: Type.Object(
    {
      ...pageQuery,
      organization_id: Type.Optional(Type.String()),
      link_id: Type.Optional(Type.String({ maxLength: 64 })),
      campaign: Type.Optional(Type.String({ maxLength: 255 })),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'A page of shared pages.',
      schema: listSchema(Type.Object(sharedPageFields, { title: 'SharedPage' })),
      example: { data: [sharedPageExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, tenancy }, { caller, query }) {
    const asked = query.organization_id;
    const refused = asked === undefined ? null : await refuseOrganization(db, caller, asked);
    if (refused) return refused;
    const page = pageOf(query);
    const scope = tenantOf(caller, asked === undefined ? organizationsOf(caller) : [asked]);
    return tenancy.within(scope, async (tenant) => {
      const foreign = query.link_id === undefined ? null : await refuseLink(tenant, query.link_id);
      if (foreign) return foreign;
      const values = [query.link_id ?? null, query.campaign ?? null];
      const [counted] = await tenant.query<{ total: number }>(`SELECT count(*) AS total ${from}`, values);
      const sql = `SELECT ${sharedPageColumns} ${from} ORDER BY created_at DESC, id DESC LIMIT $4 OFFSET $5`;
      const rows = await tenant.query<SharedPageRow>(sql, [...values, page.limit, page.offset]);
      return listAnswer(rows.map(sharedPageAnswer), counted?.total ?? 0, page);
    });
  },
});

/** Null for a link of the tenant, which may be deleted. */
async function refuseLink(tenant: TenantQueries, id: string): Promise<Rejection | null> {
  const found = await tenant.query('SELECT FROM links WHERE organization_id = ANY ($1) AND id = $2', [id]);
  return found.length > 0 ? null : absent(tenant, 'link', id);
}
