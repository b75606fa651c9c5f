/** Attempts to deliver messages of a webhook or a postback, with the responses. */
import { useQuery } from '@tanstack/react-query';
import { useAddress, useView } from '#dashboard/address.ts';
import type { Answer } from '#dashboard/api.ts';
import type { Column } from '#dashboard/csv.ts';
import { date, whole } from '#dashboard/format.ts';
import { CsvButton } from '#dashboard/parts/csv-button.tsx';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { named, t } from '#dashboard/texts/text.ts';

type Attempts = Answer<'GET /webhooks/{webhook_id}/attempts'>;
type Attempt = Attempts['data'][number];

const pageSize = 25;
/** The API lists at most this many. */
const csvRowsMax = 10_000;
/** A test message is delivered within seconds. */
export const deliveriesRefreshMs = 5_000;
export const moment: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'medium' };

const columns: readonly Column<Attempt>[] = [
  ['attempted_at', (attempt) => attempt.attempted_at],
  ['type', (attempt) => attempt.type],
  ['message_id', (attempt) => attempt.message_id],
  ['url', (attempt) => attempt.url],
  ['outcome', (attempt) => attempt.outcome],
  ['http_status', (attempt) => attempt.http_status ?? ''],
  ['duration_ms', (attempt) => attempt.duration_ms],
  ['answer', (attempt) => attempt.answer],
];

interface AttemptListProps {
  readonly queryKey: readonly string[];
  readonly load: (query: { limit: number; offset: number }) => Promise<Attempts>;
  readonly empty: string;
  /** Null for a viewer. */
  readonly onReplay: ((messageId: string) => void) | null;
}

/** The page of a list according to the URL. */
export function useOffset() {
  const { get, set } = useAddress();
  const offset = Math.max(0, Number(get('offset')) || 0);
  return { offset, onMove: (next: number) => set({ offset: next === 0 ? null : String(next) }) };
}

export function AttemptList({ queryKey, load, empty, onReplay }: AttemptListProps) {
  const { timezone } = useView();
  const { offset, onMove } = useOffset();
  const attempts = useQuery({
    queryKey: [...queryKey, 'attempts', offset],
    queryFn: () => load({ limit: pageSize, offset }),
    refetchInterval: deliveriesRefreshMs,
  });
  if (attempts.isError && !attempts.data) return <Failure error={attempts.error} />;
  if (!attempts.data) return <Loading />;
  const { data, pagination } = attempts.data;
  if (data.length === 0) return <p className="inside muted">{empty}</p>;
  return (
    <>
      <ScrollArea label={t('hooks.attempts')}>
        <table>
          <thead>
            <tr>
              <th>{t('chart.time')}</th>
              <th className="hide-narrow">{t('hooks.message')}</th>
              <th>{t('hooks.outcome')}</th>
              <th className="num hide-narrow">{t('hooks.took')}</th>
              <th className="num">
                <CsvButton
                  name="attempts"
                  label={t('export.list', { name: t('hooks.attempts') })}
                  columns={columns}
                  rowsMax={csvRowsMax}
                  load={async (limit, from) => {
                    const page = await load({ limit, offset: from });
                    return { rows: page.data, hasMore: page.pagination.has_more };
                  }}
                />
              </th>
            </tr>
          </thead>
          <tbody>
            {data.map((attempt) => (
              <tr key={attempt.message_id + attempt.attempted_at}>
                <td className="nowrap">{date(attempt.attempted_at, timezone, moment)}</td>
                <td className="hide-narrow">
                  <div className="two">
                    <span className="mono">{attempt.type}</span>
                    <code className="muted small">{attempt.message_id}</code>
                  </div>
                </td>
                <td>
                  <Outcome attempt={attempt} />
                </td>
                <td className="num hide-narrow nowrap">{t('hooks.ms', { count: whole(attempt.duration_ms) })}</td>
                <td className="num">
                  <ReplayButton id={attempt.message_id} onReplay={onReplay} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollArea>
      {pagination.total > pageSize ? <Pager {...pagination} onMove={onMove} /> : null}
    </>
  );
}

interface ReplayButtonProps {
  readonly id: string;
  readonly onReplay: AttemptListProps['onReplay'];
}

export function ReplayButton({ id, onReplay }: ReplayButtonProps) {
  if (!onReplay) return null;
  return (
    <button
      type="button"
      className="plain icon"
      aria-label={t('hooks.replay_of', { id })}
      title={t('hooks.replay')}
      onClick={() => onReplay(id)}
    >
      <Icon name="again" />
    </button>
  );
}

function Outcome({ attempt }: { readonly attempt: Attempt }) {
  const { outcome, http_status: status, answer } = attempt;
  const text = named('hooks.outcome', outcome);
  const shown = status === null ? text : `${status} · ${text}`;
  const tag = <span className={`tag ${outcome === 'delivered' ? 'good' : 'bad'}`}>{shown}</span>;
  if (answer.trim() === '') return tag;
  return (
    <details>
      <summary className="row">
        {tag}
        <span className="small muted">{t('hooks.answer')}</span>
      </summary>
      <pre className="answer">{answer}</pre>
    </details>
  );
}
