/** The fields of a link as rows of `jsonb_to_recordset`, for statements that store many. */
import { type LinkToCreate, linkFieldNames, storedValue } from '#common/links/link-fields.ts';

const types = {
  archived: 'boolean',
  data: 'jsonb',
  rules: 'jsonb',
  tags: 'text[]',
  expires_at: 'timestamptz',
  max_clicks: 'integer',
} as const;
/** The fields of a link as columns of `jsonb_to_recordset`. */
export const typedLinkFields = linkFieldNames.map((name) => `${name} ${Reflect.get(types, name) ?? 'text'}`).join(', ');

/** The fields in the form of those columns. */
export function storedFields(fields: LinkToCreate): Record<string, unknown> {
  const values = linkFieldNames.map((name) => [name, storedValue(name, fields[name])]);
  const { archived = false, data, rules } = fields;
  return { ...Object.fromEntries(values), archived, data: data ?? {}, rules: rules?.length ? rules : null };
}
