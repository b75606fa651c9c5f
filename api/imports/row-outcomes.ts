/** Determines what importing a row would do, by comparing it with the app's links and with earlier rows of the file. */
import { isDeepStrictEqual } from 'node:util';
import { linkWithCode } from '#common/links/link.ts';
import { linkFieldNames, storedValue } from '#common/links/link-fields.ts';
import { asGiven, linkLoops } from '#common/redirect/loops.ts';
import { givenLink } from '#common/redirect/own-links.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import type { ImportOutcome } from './import.ts';
import { fault, type ImportApp, type ImportedLink, isFault, type RowFault } from './import-row.ts';

export interface ReadRow {
  /** From 1, without the header. */
  readonly number: number;
  readonly line: number;
  readonly link: ImportedLink | RowFault;
}

/** A row of `import_rows`. */
export interface DecidedRow extends Partial<RowFault> {
  readonly number: number;
  readonly line: number;
  readonly outcome: ImportOutcome;
  readonly codes: readonly string[];
  readonly link?: ImportedLink;
  readonly link_id?: string;
}

interface Holder extends Readonly<Record<string, unknown>> {
  readonly code: string;
  readonly id: string;
  readonly is_deleted: boolean;
}

const fields = linkFieldNames.map((name) => `l.${name}`).join(', ');
const holders = `
  SELECT w.code, l.id, l.deleted_at IS NOT NULL AS is_deleted, ${fields}
    FROM apps a CROSS JOIN unnest($3::text[]) AS w (code) CROSS JOIN ${linkWithCode('w.code')} JOIN links l ON l.id = h.link_id
   WHERE a.organization_id = ANY ($1) AND a.id = $2`;
const externalIds = `SELECT external_id, id FROM links
  WHERE organization_id = ANY ($1) AND app_id = $2 AND external_id = ANY ($3) AND deleted_at IS NULL`;
const earlierRows = `SELECT line, codes, link FROM import_rows
  WHERE organization_id = ANY ($1) AND import_id = $2 AND number = ANY (ARRAY(
        SELECT number FROM import_codes WHERE organization_id = ANY ($1) AND import_id = $2
           AND (code = ANY ($3) AND NOT is_external_id OR code = ANY ($4) AND is_external_id)))`;

interface Earlier {
  readonly line: number;
  readonly codes: readonly string[];
  readonly link: ImportedLink;
}

interface Known {
  readonly byCode: ReadonlyMap<string, Holder>;
  readonly byExternalId: ReadonlyMap<string, string>;
  /** The rows that become links, by code and by external id. Extended with the rows of this chunk. */
  readonly earlier: Map<string, Earlier>;
  readonly earlierByExternalId: Map<string, Earlier>;
}

export async function decideRows(
  tenant: TenantQueries,
  app: ImportApp,
  importId: string,
  rows: readonly ReadRow[],
  nowMs: number,
): Promise<DecidedRow[]> {
  const links = rows.flatMap(({ link }) => (isFault(link) ? [] : [link]));
  const codes = links.flatMap((link) => link.codes);
  const ids = links.flatMap(({ fields }) => fields.external_id ?? []);
  const held = await tenant.query<Holder>(holders, [app.id, codes]);
  const external = await tenant.query<{ external_id: string; id: string }>(externalIds, [app.id, ids]);
  const before = await tenant.query<Earlier>(earlierRows, [importId, codes, ids]);
  const known: Known = {
    byCode: new Map(held.map((holder) => [holder.code, holder])),
    byExternalId: new Map(external.map(({ external_id, id }) => [external_id, id])),
    earlier: new Map(),
    earlierByExternalId: new Map(),
  };
  for (const row of before) remember(row, known);
  return withoutLoops(
    tenant,
    app,
    rows.map((row) => decided(row, known)),
    nowMs,
  );
}

/** Rows whose destinations lead back to them, over the app's links or over other rows of this chunk, cannot be imported. */
async function withoutLoops(
  tenant: TenantQueries,
  app: ImportApp,
  rows: readonly DecidedRow[],
  nowMs: number,
): Promise<DecidedRow[]> {
  const links = rows.flatMap(({ number, link, codes }) => {
    if (link === undefined) return [];
    const [short_code = '', ...other_codes] = codes;
    return [givenLink({ ...link.fields, id: `row ${number}`, app_id: app.id, short_code, other_codes })];
  });
  // The file has one destination, which the three fields of a link are.
  const loops = (await linkLoops(tenant, links, nowMs)).map((some) => asGiven(some, { url: '' }));
  const faults = new Map(loops.map(([first], at) => [links[at]?.id, first]));
  return rows.map((row) => {
    const found = faults.get(`row ${row.number}`);
    if (found === undefined) return row;
    const { link: _, ...others } = row;
    return { ...others, outcome: 'unsupported', ...fault(found.field, 'loop', found.message) };
  });
}

function remember(row: Earlier, { earlier, earlierByExternalId }: Known): void {
  for (const code of row.codes) earlier.set(code, row);
  const externalId = row.link.fields.external_id ?? null;
  if (externalId !== null) earlierByExternalId.set(externalId, row);
}

function decided({ number, line, link }: ReadRow, known: Known): DecidedRow {
  if (isFault(link)) return { number, line, outcome: 'unsupported', codes: [], ...link };
  const base = { number, line, codes: link.codes };
  const [code = ''] = link.codes;
  const earlier = link.codes.map((one) => known.earlier.get(one)).find((one) => one !== undefined);
  if (earlier) {
    const isSame = isDeepStrictEqual(plain(earlier.link), plain(link));
    return {
      ...base,
      outcome: isSame ? 'same' : 'conflict',
      ...fault('code', 'repeated', `line ${earlier.line} already has this code`),
    };
  }
  const holder = known.byCode.get(code);
  const others = link.codes.map((one) => known.byCode.get(one)).filter((one) => one !== undefined);
  if (holder) return { ...base, ...comparison(link, holder, others) };
  const [other] = others;
  if (other) return { ...base, outcome: 'conflict', link_id: other.id, ...takenCode(other) };
  const external = known.byExternalId.get(link.fields.external_id ?? '');
  if (external !== undefined)
    return {
      ...base,
      outcome: 'conflict',
      link_id: external,
      ...fault('external_id', 'taken', 'another link already has it'),
    };
  const namesake = known.earlierByExternalId.get(link.fields.external_id ?? '');
  if (namesake)
    return {
      ...base,
      outcome: 'conflict',
      ...fault('external_id', 'repeated', `line ${namesake.line} already has this external_id`),
    };
  remember({ line, codes: link.codes, link }, known);
  return { ...base, outcome: 'new', link };
}

/** As it is read back from jsonb. */
function plain(link: ImportedLink): unknown {
  return JSON.parse(JSON.stringify(link));
}

function takenCode({ code, is_deleted }: Holder): RowFault {
  return is_deleted
    ? fault('code', 'deleted', `${code} belonged to a deleted link, and codes are not reused`)
    : fault('code', 'taken', `another link already has ${code}`);
}

/** The row is the same link if all fields in the file equal those of the existing link. Counts and dates may differ. */
function comparison(
  link: ImportedLink,
  holder: Holder,
  others: readonly Holder[],
): Pick<DecidedRow, 'outcome' | 'link_id'> & Partial<RowFault> {
  const link_id = holder.id;
  if (holder.is_deleted) return { outcome: 'conflict', link_id, ...takenCode(holder) };
  if (others.length < link.codes.length || others.some(({ id }) => id !== holder.id))
    return {
      outcome: 'conflict',
      link_id,
      ...fault('other_codes', 'differs', 'the existing link has different other codes'),
    };
  const given: Partial<Record<string, unknown>> = link.fields;
  const differing = linkFieldNames.find(
    (name) =>
      given[name] !== undefined && !isDeepStrictEqual(written(holder[name]), written(readBack(name, given[name]))),
  );
  if (differing !== undefined) {
    const message = 'the existing link with this code has a different value';
    return { outcome: 'conflict', link_id, ...fault(differing, 'differs', message) };
  }
  return { outcome: 'same', link_id };
}

function readBack(field: (typeof linkFieldNames)[number], value: unknown): unknown {
  if (field === 'rules') return value;
  return field === 'data' ? (value ?? {}) : storedValue(field, value);
}

/** Times as text, and everything else as JSON stores it. */
function written(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}
