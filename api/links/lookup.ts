import { Type } from 'typebox';
import { refuseApp, tenantOf } from '#api/access.ts';
import { route } from '#api/route.ts';
import { invalid, notFound, Rejection } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkColumns, linkExample, linkSchema, linkWithCode } from '#common/links/link.ts';
import { codeOfPath, IMPORTED_CODE_CHARACTERS_MAX } from '#common/links/short-code.ts';
import { hostOf } from '#common/links/web-address.ts';

const query = Type.Object(
  {
    app_id: Type.Optional(Type.String({ description: 'The app of the external_id.' })),
    external_id: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    host: Type.Optional(Type.String({ minLength: 1, maxLength: 253, description: 'The host of the short_code.' })),
    short_code: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: IMPORTED_CODE_CHARACTERS_MAX,
        description: 'Any of the link’s short codes.',
      }),
    ),
    url: Type.Optional(Type.String({ minLength: 1, maxLength: 2048, description: 'A short URL.' })),
  },
  { additionalProperties: false },
);

const select = `SELECT ${linkColumns} FROM links l JOIN apps a ON a.id = l.app_id
  WHERE l.organization_id = ANY ($1) AND l.deleted_at IS NULL AND a.deleted_at IS NULL`;

const byHostAndCode = `l.id IN (SELECT h.link_id FROM apps a CROSS JOIN ${linkWithCode('$3')}
    WHERE a.organization_id = ANY ($1) AND a.host = $2 AND a.deleted_at IS NULL)`;

export const lookUpLink = route({
  method: 'GET',
  path: '/links/lookup',
  operationId: 'lookUpLink',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'Links',
  summary: 'Find a link by external id, short code or URL',
  description:
    'Give app_id and external_id, host and short_code, or the short URL. A link of another organization gives 404, like an unknown one.',
  query,
  answers: { 200: { description: 'The link.', schema: linkSchema, example: linkExample } },
  async handle({ tenancy, shortUrl }, { caller, query }) {
    const name = nameOf(query);
    if (name instanceof Rejection) return name;
    return tenancy.within(tenantOf(caller), async (tenant) => {
      const refused = await refuseApp(tenant, query.app_id);
      if (refused) return refused;
      const [link] = await tenant.query<LinkRow>(`${select} AND ${name.condition}`, name.values);
      return link ? { status: 200, body: linkAnswer(link, shortUrl) } : notFound('There is no such link.');
    });
  },
});

interface Name {
  readonly condition: string;
  readonly values: readonly string[];
}

function nameOf(
  query: Partial<Record<'app_id' | 'external_id' | 'host' | 'short_code' | 'url', string>>,
): Name | Rejection {
  const { app_id, external_id, host, short_code, url } = query;
  const given = [external_id, short_code, url].filter((one) => one !== undefined);
  if (given.length !== 1) return invalid('external_id', 'exactly one of external_id, short_code and url is required');
  if (external_id !== undefined) {
    if (app_id === undefined) return invalid('app_id', 'is required with external_id');
    return { condition: 'l.app_id = $2 AND l.external_id = $3', values: [app_id, external_id] };
  }
  if (url !== undefined) return byUrl(url);
  if (host === undefined) return invalid('host', 'is required with short_code');
  return byCode(host, (short_code ?? '').normalize('NFC'), 'host');
}

function byUrl(url: string): Name | Rejection {
  // People also paste URLs without a scheme.
  const text = /^https?:\/\//i.test(url) ? url : `https://${url}`;
  if (!URL.canParse(text)) return invalid('url', 'is not a URL');
  const { hostname, pathname } = new URL(text);
  // A path that is not a valid code matches no link.
  return byCode(hostname, codeOfPath(pathname) ?? '', 'url');
}

function byCode(given: string, short_code: string, field: string): Name | Rejection {
  const host = hostOf(given);
  if (host === null) return invalid(field, 'has no host name such as go.example.com');
  return { condition: byHostAndCode, values: [host, short_code] };
}
