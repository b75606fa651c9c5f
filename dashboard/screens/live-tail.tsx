/** Clicks, matches, installs, openings and events as they arrive. A row opens its related records. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link as PageLink } from 'wouter';
import { useAddress, useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { type Column, csvOf } from '#dashboard/csv.ts';
import { download } from '#dashboard/download.ts';
import { bare, date, share } from '#dashboard/format.ts';
import { type LiveKind, type LiveRecord, type LiveState, liveKinds, useLive } from '#dashboard/live.ts';
import { storyOf } from '#dashboard/live-story.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { named, t } from '#dashboard/texts/text.ts';

const liveColumns: readonly Column<LiveRecord>[] = [
  ['time', (record) => record.time],
  ['kind', (record) => record.kind],
  ['fields', (record) => JSON.stringify(record.fields)],
];
const recordsMax = 300;
const namesMax = 100;

export function LiveTail() {
  const { get } = useAddress();
  const { timezone } = useView();
  const [records, setRecords] = useState<readonly LiveRecord[]>([]);
  const [hidden, setHidden] = useState<ReadonlySet<LiveKind>>(new Set());
  const [isPaused, setPaused] = useState(false);
  const [rate, setRate] = useState(1);
  const [opened, setOpened] = useState<LiveRecord | null>(null);
  const watched = get('device') ?? '';
  const query = {
    app_id: get('app_id') ?? undefined,
    ...(watched.startsWith('lnk_') ? { link_id: watched } : { device_id: watched || undefined }),
  };
  const list = JSON.stringify(query);
  const [shownList, setShownList] = useState(list);
  if (shownList !== list) {
    setShownList(list);
    setRecords([]);
  }
  const state = useLive(
    isPaused ? null : query,
    (record) => setRecords((before) => [record, ...before].slice(0, recordsMax)),
    setRate,
  );
  const names = useLinkNames();
  const shown = records.filter(({ kind }) => !hidden.has(kind));
  return (
    <section className="card">
      <header>
        <h2>{t('live.title')}</h2>
        <StateOf state={isPaused ? 'paused' : state} />
        {rate < 1 ? <span className="tag warn">{t('live.sampled', { share: share(rate) })}</span> : null}
        <span className="row wrap push">
          {liveKinds.map((kind) => (
            <button
              key={kind}
              type="button"
              className={`kind ${kind}`}
              aria-pressed={!hidden.has(kind)}
              onClick={() => {
                const next = new Set(hidden);
                if (!next.delete(kind)) next.add(kind);
                setHidden(next);
              }}
            >
              {t(`live.${kind}`)}
            </button>
          ))}
          {shown.length > 0 ? (
            <button
              type="button"
              className="plain icon"
              aria-label={t('live.save')}
              title={t('live.save')}
              onClick={() => download(new Blob([csvOf(liveColumns, shown)], { type: 'text/csv' }), 'live.csv')}
            >
              <Icon name="save" />
            </button>
          ) : null}
          <button type="button" onClick={() => setPaused(!isPaused)}>
            {t(isPaused ? 'live.go_on' : 'live.pause')}
          </button>
        </span>
      </header>
      {shown.length === 0 ? (
        <p className="inside muted">{t(state === 'closed' ? 'live.away' : 'live.waiting')}</p>
      ) : (
        <ScrollArea label={t('live.title')} height="tail">
          <table>
            <thead className="sr">
              <tr>
                <th>{t('chart.time')}</th>
                <th>{t('trust.kind')}</th>
                <th>{t('link.details')}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((record) => (
                <tr key={record.key}>
                  <td className="nowrap mono small">{clock(record.time, timezone)}</td>
                  <td>
                    <span className={`tag kind ${record.kind}`}>{t(`live.${record.kind}`)}</span>
                  </td>
                  <td className="wide">
                    <button type="button" className="plain line" onClick={() => setOpened(record)}>
                      <span className="cut">{lineOf(record, names)}</span>
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollArea>
      )}
      {opened ? (
        <Story story={storyOf(opened, records)} names={names} zone={timezone} onClose={() => setOpened(null)} />
      ) : null}
    </section>
  );
}

function StateOf({ state }: { readonly state: LiveState | 'paused' }) {
  if (state === 'open') return <span className="small muted pulse">{t('debugger.live')}</span>;
  return <span className="small muted">{t(`live.state_${state}`)}</span>;
}

const clock = (time: string, zone: string) => date(time, zone, { timeStyle: 'medium' });

/** Links by id, if they are among the newest. */
export function useLinkNames(): ReadonlyMap<string, string> {
  const links = useQuery({
    queryKey: ['link-names'],
    queryFn: () => call('GET /links', { query: { limit: namesMax } }),
    staleTime: 60_000,
  });
  return new Map((links.data?.data ?? []).map((link) => [link.id, link.title || bare(link.url)]));
}

/** A record in one line. */
function lineOf({ kind, fields }: LiveRecord, names: ReadonlyMap<string, string>): string {
  const text = (name: string) => (typeof fields[name] === 'string' ? fields[name] : '');
  const link = text('link_id') === '' ? '' : (names.get(text('link_id')) ?? text('link_id'));
  const platform = named('platform', text('platform'));
  const device = text('device_id') || text('install_id');
  const revenue = text('revenue_amount') === '' ? '' : `${text('revenue_amount')} ${text('revenue_currency')}`;
  const parts: Readonly<Record<LiveKind, readonly string[]>> = {
    click: [link, platform, text('referrer_host'), text('campaign'), fields['is_bot'] === true ? t('live.bot') : ''],
    match: [named('outcome', text('outcome')), link, platform, device],
    install: [link || t('no_link'), platform, named('match', text('match_type')), device],
    open: [link || t('no_link'), platform, device],
    event: [text('name'), revenue, platform, device],
  };
  return parts[kind].filter((part) => part !== '').join(' · ');
}

interface StoryProps {
  readonly story: readonly LiveRecord[];
  readonly names: ReadonlyMap<string, string>;
  readonly zone: string;
  readonly onClose: () => void;
}

function Story({ story, names, zone, onClose }: StoryProps) {
  return (
    <Dialog title={t('live.story')} isDrawer onClose={onClose}>
      <ol className="fields story">
        {story.map((record) => (
          <li key={record.key} className="stack tight">
            <span className="row">
              <span className={`tag kind ${record.kind}`}>{t(`live.${record.kind}`)}</span>
              <span className="mono small muted">{clock(record.time, zone)}</span>
            </span>
            <span>{lineOf(record, names)}</span>
            <Fields record={record} />
          </li>
        ))}
      </ol>
    </Dialog>
  );
}

function Fields({ record: { kind, fields } }: { readonly record: LiveRecord }) {
  const rows = Object.entries(fields).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return (
    <>
      {kind === 'match' && typeof fields['match_id'] === 'string' ? (
        <PageLink href={`/debugger/${fields['match_id']}`}>{t('live.why')}</PageLink>
      ) : null}
      {typeof fields['link_id'] === 'string' ? (
        <PageLink href={`/links/${fields['link_id']}`}>{t('link.open')}</PageLink>
      ) : null}
      <details className="more">
        <summary>{t('live.fields')}</summary>
        <dl className="facts small">
          {rows.flatMap(([name, value]) => [
            <dt key={name}>{name}</dt>,
            <dd key={`${name} `} className="mono">
              {String(value)}
            </dd>,
          ])}
        </dl>
      </details>
    </>
  );
}
