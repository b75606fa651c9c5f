import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import {
  changeImport,
  IMPORT_BYTES_MAX,
  IMPORT_PART_BYTES_MAX,
  IMPORT_PARTS_MAX,
  type ImportRow,
  importColumns,
  importExample,
  importParams,
  importSchema,
} from './import.ts';

const keep = `
  INSERT INTO import_parts (import_id, organization_id, app_id, number, bytes)
  SELECT i.id, i.organization_id, i.app_id, $3, $4 FROM imports i WHERE i.organization_id = ANY ($1) AND i.id = $2
  ON CONFLICT (import_id, number) DO UPDATE SET bytes = EXCLUDED.bytes`;
const sizeOfOthers = `SELECT coalesce(sum(octet_length(bytes)), 0)::bigint AS bytes FROM import_parts
  WHERE organization_id = ANY ($1) AND import_id = $2 AND number <> $3`;
const count = `
  UPDATE imports i SET updated_at = $3, (parts, bytes) =
         (SELECT count(*), coalesce(sum(octet_length(p.bytes)), 0) FROM import_parts p WHERE p.import_id = i.id)
   WHERE i.organization_id = ANY ($1) AND i.id = $2 RETURNING ${importColumns}`;

export const uploadImportPart = changingRoute({
  method: 'PUT',
  path: '/imports/{import_id}/parts/{number}',
  operationId: 'uploadImportPart',
  caller: 'user',
  scope: 'import',
  limit: 'general',
  tag: 'Imports',
  summary: 'Upload a part of the file',
  description: `The file as UTF-8, whole or cut anywhere into parts of at most ${IMPORT_PART_BYTES_MAX} bytes, numbered from 1; at most ${IMPORT_BYTES_MAX} bytes in total. Sending a part again replaces it, so an interrupted upload can be resumed.`,
  params: Type.Object({
    ...importParams.properties,
    number: Type.String({ pattern: '^[1-9][0-9]{0,3}$', examples: ['1'] }),
  }),
  bodyMode: 'raw',
  bodyContentType: 'text/csv',
  body: Type.String(),
  bodyExample:
    'link,long_url,created_at\nhttps://go.example.com/summer,https://www.example.com/sale,2021-05-06T07:08:09+0000\n',
  bodyBytesMax: IMPORT_PART_BYTES_MAX,
  answers: { 200: { description: 'The import.', schema: importSchema, example: importExample } },
  async handle(deps, { caller, note, params, rawBody }) {
    const number = Number(params.number);
    return changeImport(deps, { caller, note }, params.import_id, async (tenant, { id, state }) => {
      if (number > IMPORT_PARTS_MAX) return invalid('number', `must be at most ${IMPORT_PARTS_MAX}`);
      if (rawBody.byteLength === 0) return invalid('body', 'is empty');
      if (state !== 'uploading') return invalid('import_id', `is an import whose state is ${state}, not uploading`);
      return storePart(tenant, id, number, rawBody.bytes, deps.clock());
    });
  },
});

export async function storePart(
  tenant: TenantQueries,
  id: string,
  number: number,
  bytes: Uint8Array,
  nowMs: number,
): Promise<ImportRow | Rejection> {
  const [others] = await tenant.query<{ bytes: number }>(sizeOfOthers, [id, number]);
  if ((others?.bytes ?? 0) + bytes.byteLength > IMPORT_BYTES_MAX)
    return invalid('body', `the file has more than ${IMPORT_BYTES_MAX} bytes`);
  await tenant.query(keep, [id, number, bytes]);
  const [row] = await tenant.query<ImportRow>(count, [id, new Date(nowMs)]);
  if (!row) throw new Error('an import that is locked was not updated');
  return row;
}
