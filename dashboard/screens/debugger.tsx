/** The debugger: every match request with its outcome, newest first. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link as PageLink } from 'wouter';
import { useAddress, useView } from '#dashboard/address.ts';
import { type Answer, call, type Query } from '#dashboard/api.ts';
import { share, time } from '#dashboard/format.ts';
import { AppChoice } from '#dashboard/parts/app-choice.tsx';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { MatchesCsv } from '#dashboard/parts/list-csv.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { named, t } from '#dashboard/texts/text.ts';
import { LiveTail } from './live-tail.tsx';

type Match = Answer<'GET /matches'>['data'][number];
type Outcome = NonNullable<Query<'GET /matches'>['outcome']>;

const pageSize = 50;
const refreshMs = 5_000;
const outcomes: readonly Outcome[] = [
  'matched',
  'no_candidates',
  'low_confidence',
  'ambiguous',
  'gated',
  'click_unknown',
  'click_claimed',
  'click_expired',
  'link_unknown',
  'off',
];

export function Debugger() {
  const { get, set } = useAddress();
  const { timezone } = useView();
  const offset = Math.max(0, Number(get('offset')) || 0);
  const watched = get('device') ?? '';
  const query = {
    interval: '30d' as const,
    timezone,
    limit: pageSize,
    offset,
    app_id: get('app_id') ?? undefined,
    outcome: outcomes.find((one) => one === get('outcome')),
    ...(watched.startsWith('lnk_') ? { link_id: watched } : { device_id: watched || undefined }),
  };
  const matches = useQuery({
    queryKey: ['matches', query],
    queryFn: () => call('GET /matches', { query }),
    placeholderData: keepPreviousData,
    refetchInterval: offset === 0 ? refreshMs : false,
  });
  const rows = matches.data?.data ?? [];
  const watch = async (text: string) => set({ device: (await linkOf(text)) ?? (text || null), offset: null });
  return (
    <div className="stack">
      <div className="head">
        <h1>{t('nav.debugger')}</h1>
        <div className="row push">
          <input
            type="search"
            aria-label={t('debugger.device')}
            placeholder={t('debugger.device')}
            defaultValue={get('device') ?? ''}
            onKeyDown={(event) => {
              if (event.key === 'Enter') void watch(event.currentTarget.value.trim());
            }}
          />
          <AppChoice value={get('app_id') ?? null} onChange={(app_id) => set({ app_id, offset: null })} />
        </div>
      </div>
      <LiveTail />
      {matches.isError && !matches.data ? <Failure error={matches.error} retry={() => void matches.refetch()} /> : null}
      {matches.data || matches.isPending ? (
        <section className="card">
          <header>
            <h2>{t('debugger.table')}</h2>
            <div className="row push">
              {rows.length > 0 ? <MatchesCsv query={query} /> : null}
              <Choice
                label={t('debugger.outcome')}
                isLabelHidden
                value={query.outcome ?? ''}
                options={[
                  ['', t('debugger.all')] as const,
                  ...outcomes.map((one) => [one, named('outcome', one)] as const),
                ]}
                onChange={(value) => set({ outcome: value || null, offset: null })}
              />
            </div>
          </header>
          <p className="caption">{t('debugger.text')}</p>
          {matches.isPending ? <Loading lines={8} /> : null}
          {matches.data && rows.length === 0 ? (
            <Empty
              title={t('debugger.none')}
              text={watched === '' ? t('debugger.none_text') : t('debugger.none_for', { what: watched })}
            />
          ) : null}
          {rows.length > 0 ? <MatchTable rows={rows} zone={timezone} /> : null}
          {matches.data && matches.data.pagination.total > pageSize ? (
            <Pager {...matches.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      ) : null}
      <p className="small">
        <PageLink href="/trust">{t('debugger.refused')}</PageLink>
      </p>
    </div>
  );
}

/** The id of the link with this short code or URL, because people rarely know the id. */
async function linkOf(text: string): Promise<string | undefined> {
  const code = text.slice(text.lastIndexOf('/') + 1);
  if (!/^[\w-]{3,64}$/.test(code) || text.startsWith('lnk_')) return undefined;
  const found = await call('GET /links', { query: { search: code, limit: 100 } }).catch(() => null);
  return found?.data.find((link) => link.short_code === code)?.id;
}

export function OutcomeTag({ outcome }: { readonly outcome: string }) {
  return (
    <span className={`tag ${outcome === 'matched' ? 'good' : outcome === 'ambiguous' ? 'warn' : ''}`}>
      {named('outcome', outcome)}
    </span>
  );
}

function MatchTable({ rows, zone }: { readonly rows: readonly Match[]; readonly zone: string }) {
  return (
    <ScrollArea label={t('debugger.table')}>
      <table>
        <thead>
          <tr>
            <th>{t('chart.time')}</th>
            <th>{t('debugger.outcome')}</th>
            <th className="hide-narrow">{t('debugger.platform')}</th>
            <th className="num hide-narrow">{t('debugger.confidence')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((match) => (
            <tr key={match.match_id}>
              <td className="nowrap">
                <PageLink href={`/debugger/${match.match_id}`}>{time(match.time, zone)}</PageLink>
              </td>
              <td className="prose">
                <OutcomeTag outcome={match.outcome} />{' '}
                <PageLink className="strong" href={`/debugger/${match.match_id}`}>
                  {match.explanation}
                </PageLink>
              </td>
              <td className="hide-narrow">{named('platform', match.platform)}</td>
              <td className="num hide-narrow">{match.confidence > 0 ? share(match.confidence) : '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
