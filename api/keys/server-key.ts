/** A server key as stored in Postgres and as returned by the API: never the key itself. */
import { Type } from 'typebox';
import { type KeyScope, keyScopes } from '#common/http/route.ts';
import { nullable } from '#common/links/link-fields.ts';

export interface ServerKeyRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly key_preview: string;
  readonly scopes: readonly KeyScope[];
  readonly app_ids: readonly string[] | null;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly last_used_at: Date | null;
}

export const serverKeyColumns =
  'id, organization_id, name, key_preview, scopes, app_ids, created_by, created_at, expires_at, last_used_at';

export function serverKeyAnswer(row: ServerKeyRow): object {
  const { created_at, expires_at, last_used_at, ...fields } = row;
  return {
    ...fields,
    created_at: created_at.toISOString(),
    expires_at: expires_at?.toISOString() ?? null,
    last_used_at: last_used_at?.toISOString() ?? null,
  };
}

export const scopesSchema = Type.Array(Type.Unsafe<KeyScope>({ type: 'string', enum: [...keyScopes] }), {
  minItems: 1,
  maxItems: keyScopes.length,
  uniqueItems: true,
  description: 'What the key may do. A :write scope includes the :read scope of the same resource.',
});

const time = Type.String({ format: 'date-time' });
const fields = {
  id: Type.String(),
  organization_id: Type.String(),
  name: Type.String(),
  key_preview: Type.String({ description: 'The beginning of the key, to tell keys apart.' }),
  scopes: scopesSchema,
  app_ids: nullable(
    Type.Array(Type.String(), { description: 'The apps to which the key is limited; null: all apps.' }),
  ),
  created_by: nullable(Type.String({ description: 'The user who created the key; null if that user was deleted.' })),
  created_at: time,
  expires_at: nullable(time),
  last_used_at: nullable(Type.String({ format: 'date-time', description: 'Accurate to one minute.' })),
};

export const serverKeySchema = Type.Object(fields, { title: 'ServerKey' });
export const newServerKeySchema = Type.Object(
  { ...fields, key: Type.String({ description: 'The key. It is shown only in this answer.' }) },
  { title: 'CreatedServerKey' },
);
export const keyParams = Type.Object({ id: Type.String({ examples: ['key_01j9z3k4m5n6p7q8r9s0t1v2w3'] }) });

export const serverKeyExample = {
  id: 'key_01j9z3k4m5n6p7q8r9s0t1v2w3',
  organization_id: 'org_01j9z3k4m5n6p7q8r9s0t1v2w3',
  name: 'Shop backend',
  key_preview: 'sk_exam…0000',
  scopes: ['links:write', 'analytics:read'],
  app_ids: null,
  created_by: 'usr_01j9z3k4m5n6p7q8r9s0t1v2w3',
  created_at: '2026-01-15T09:30:00.000Z',
  expires_at: '2027-01-15T00:00:00.000Z',
  last_used_at: null,
};
