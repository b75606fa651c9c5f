/** The report of an import by row, with the problem of each. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Link } from 'wouter';
import { type Answer, call } from '#dashboard/api.ts';
import type { Column } from '#dashboard/csv.ts';
import { CsvButton } from '#dashboard/parts/csv-button.tsx';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import type { Import } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

type Row = Answer<'GET /imports/{import_id}/rows'>['data'][number];

const pageSize = 100;
/** Maximum rows of one file: at most 100 requests. */
const csvRowsMax = 10_000;
const outcomes = ['new', 'same', 'conflict', 'unsupported'] as const;
type Outcome = (typeof outcomes)[number];
const tones: Readonly<Record<Outcome, string>> = { new: 'good', same: '', conflict: 'warn', unsupported: 'bad' };

const columns: readonly Column<Row>[] = [
  ['line', (row) => row.line],
  ['codes', (row) => row.codes.join(', ')],
  ['outcome', (row) => row.outcome],
  ['field', (row) => row.field ?? ''],
  ['message', (row) => row.message ?? ''],
  ['result', (row) => row.result ?? ''],
  ['link_id', (row) => row.link_id ?? ''],
];

export function ImportRows({ id, state }: Pick<Import, 'id' | 'state'>) {
  const [outcome, setOutcome] = useState<Outcome | ''>('');
  const rows = useInfiniteQuery({
    queryKey: ['import-rows', id, state, outcome],
    queryFn: ({ pageParam }) =>
      call('GET /imports/{import_id}/rows', {
        params: { import_id: id },
        query: {
          limit: pageSize,
          ...(pageParam === '' ? {} : { cursor: pageParam }),
          ...(outcome === '' ? {} : { outcome }),
        },
      }),
    initialPageParam: '',
    getNextPageParam: (last) => last.next_cursor,
  });
  const list = rows.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <section className="card">
      <header>
        <h2>{t('imports.by_row')}</h2>
        <span className="row push">
          {list.length > 0 ? <RowsCsv id={id} outcome={outcome} /> : null}
          <Choice
            label={t('hooks.outcome')}
            isLabelHidden
            value={outcome}
            options={[
              ['', t('imports.all_rows')] as const,
              ...outcomes.map((one) => [one, t(`imports.outcome.${one}`)] as const),
            ]}
            onChange={setOutcome}
          />
        </span>
      </header>
      {rows.isError && !rows.data ? <Failure error={rows.error} retry={() => void rows.refetch()} /> : null}
      {rows.isPending ? <Loading /> : null}
      {rows.data && list.length === 0 ? <p className="inside muted">{t('imports.no_rows')}</p> : null}
      {list.length > 0 ? <RowTable rows={list} /> : null}
      {rows.hasNextPage ? (
        <div className="pager">
          <button
            type="button"
            className="push"
            disabled={rows.isFetchingNextPage}
            onClick={() => void rows.fetchNextPage()}
          >
            {t('imports.more')}
          </button>
        </div>
      ) : null}
    </section>
  );
}

/** Rows of the selected outcome. This list uses a cursor instead of an offset. */
function RowsCsv({ id, outcome }: { readonly id: string; readonly outcome: Outcome | '' }) {
  const cursor = useRef('');
  const load = async (limit: number, offset: number) => {
    const { data, next_cursor } = await call('GET /imports/{import_id}/rows', {
      params: { import_id: id },
      query: { limit, ...(offset === 0 ? {} : { cursor: cursor.current }), ...(outcome === '' ? {} : { outcome }) },
    });
    cursor.current = next_cursor ?? '';
    return { rows: data, hasMore: next_cursor !== null };
  };
  return (
    <CsvButton
      name="import"
      label={t('export.list', { name: t('imports.by_row') })}
      columns={columns}
      rowsMax={csvRowsMax}
      load={load}
    />
  );
}

function RowTable({ rows }: { readonly rows: readonly Row[] }) {
  return (
    <ScrollArea label={t('imports.by_row')}>
      <table>
        <thead>
          <tr>
            <th className="num">{t('imports.line')}</th>
            <th>{t('imports.codes')}</th>
            <th>{t('hooks.outcome')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.number}>
              <td className="num muted">{row.line}</td>
              <td>
                {row.link_id ? (
                  <Link href={`/links/${row.link_id}`}>{row.codes.join(', ') || row.link_id}</Link>
                ) : (
                  row.codes.join(', ')
                )}
              </td>
              <td>
                <div className="two">
                  <span className="row wrap">
                    <span className={`tag ${tones[row.outcome]}`}>{t(`imports.outcome.${row.outcome}`)}</span>
                    {row.result ? <span className="tag">{t(`imports.row.${row.result}`)}</span> : null}
                  </span>
                  {row.message ? (
                    <span className="muted small">{row.field ? `${row.field}: ${row.message}` : row.message}</span>
                  ) : null}
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
