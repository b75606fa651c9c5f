/** The list envelope: the requested page and its response. */
import { type TSchema, Type } from 'typebox';
import type { Answer } from '#common/http/route.ts';

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 100;

/** Query parameters of every list. A larger `limit` is clamped, so it has no maximum here. */
export const pageQuery = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, description: `Page size, at most ${LIMIT_MAX}; default ${LIMIT_DEFAULT}.` }),
  ),
  offset: Type.Optional(
    Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Items to skip; default 0.' }),
  ),
};

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

export function pageOf(query: { readonly limit?: number; readonly offset?: number }): Page {
  return { limit: Math.min(query.limit ?? LIMIT_DEFAULT, LIMIT_MAX), offset: query.offset ?? 0 };
}

export function listAnswer(data: readonly unknown[], total: number, page: Page, more: object = {}): Answer {
  const has_more = page.offset + data.length < total;
  const pagination = { total, limit: page.limit, offset: page.offset, has_more };
  return { status: 200, body: { data, pagination, ...more } };
}

export function listSchema(item: TSchema) {
  return Type.Object({
    data: Type.Array(item),
    pagination: Type.Object(
      {
        total: Type.Integer(),
        limit: Type.Integer(),
        offset: Type.Integer(),
        has_more: Type.Boolean(),
      },
      { title: 'Pagination' },
    ),
  });
}
