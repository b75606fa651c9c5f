/** CSV exports of several lists, with the filters of the screen. */
import { type Answer, call, type Query } from '#dashboard/api.ts';
import type { Column } from '#dashboard/csv.ts';
import { linkColumns } from '#dashboard/link-csv.ts';
import { t } from '#dashboard/texts/text.ts';
import { CsvButton } from './csv-button.tsx';

/** Maximum rows of one file: at most 100 requests. */
const rowsMax = 10_000;
/** Links are read by a cursor, which costs the same on each page. */
const linksMax = 100_000;

type Row<Name extends 'GET /apps' | 'GET /members' | 'GET /matches'> = Answer<Name>['data'][number];

const appColumns: readonly Column<Row<'GET /apps'>>[] = [
  ['name', (app) => app.name],
  ['host', (app) => app.host],
  ['host_status', (app) => app.host_verification.status],
  ['ios_bundle_id', (app) => app.ios?.bundle_id ?? ''],
  ['android_package_name', (app) => app.android?.package_name ?? ''],
  ['created_at', (app) => app.created_at],
  ['id', (app) => app.id],
];
const memberColumns: readonly Column<Row<'GET /members'>>[] = [
  ['name', (member) => member.name],
  ['email', (member) => member.email],
  ['role', (member) => member.role],
  ['is_disabled', (member) => String(member.is_disabled)],
  ['organization_id', (member) => member.organization_id],
  ['created_at', (member) => member.created_at],
];
const matchColumns: readonly Column<Row<'GET /matches'>>[] = [
  ['time', (match) => match.time],
  ['outcome', (match) => match.outcome],
  ['explanation', (match) => match.explanation],
  ['platform', (match) => match.platform],
  ['match_type', (match) => match.match_type],
  ['confidence', (match) => match.confidence],
  ['device_id', (match) => match.device_id ?? ''],
  ['link_id', (match) => match.link_id ?? ''],
  ['match_id', (match) => match.match_id],
];

interface Page<Row> {
  readonly data: readonly Row[];
  readonly pagination: { readonly has_more: boolean };
}

export function ListCsv<Row>(props: {
  readonly name: string;
  readonly title: string;
  readonly columns: readonly Column<Row>[];
  readonly load: (page: { limit: number; offset: number }) => Promise<Page<Row>>;
}) {
  return (
    <CsvButton
      name={props.name}
      label={t('export.list', { name: props.title })}
      columns={props.columns}
      rowsMax={rowsMax}
      load={async (limit, offset) => {
        const { data, pagination } = await props.load({ limit, offset });
        return { rows: data, hasMore: pagination.has_more };
      }}
    />
  );
}

export function LinksCsv({ query }: { readonly query: Query<'GET /links'> }) {
  const load = async (limit: number, offset: number, cursor: string) => {
    const place = query?.sort === 'clicks' ? { offset } : { cursor };
    const { data, pagination } = await call('GET /links', { query: { ...query, limit, ...place }, isExact: true });
    return { rows: data, hasMore: pagination.has_more, cursor: pagination.next_cursor ?? null };
  };
  const label = t('export.list', { name: t('nav.links') });
  return <CsvButton name="links" label={label} columns={linkColumns} rowsMax={linksMax} load={load} />;
}

export function AppsCsv() {
  return (
    <ListCsv name="apps" title={t('nav.apps')} columns={appColumns} load={(query) => call('GET /apps', { query })} />
  );
}

export function MembersCsv() {
  const load = (query: Query<'GET /members'>) => call('GET /members', { query });
  return <ListCsv name="members" title={t('nav.members')} columns={memberColumns} load={load} />;
}

export function MatchesCsv({ query }: { readonly query: Query<'GET /matches'> }) {
  const load = (page: object) => call('GET /matches', { query: { ...query, ...page } });
  return <ListCsv name="matches" title={t('debugger.table')} columns={matchColumns} load={load} />;
}
