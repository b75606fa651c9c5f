/** The trust page: how current the statistics are, what the audits found, and which records were rejected. */
import { useQuery } from '@tanstack/react-query';
import { Fragment, type ReactNode } from 'react';
import { useView } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { ago, date, time, whole } from '#dashboard/format.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { PipelineCard } from '#dashboard/parts/pipeline-card.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { named, t } from '#dashboard/texts/text.ts';

type TrustAnswer = Answer<'GET /trust'>;

const refreshMs = 10_000;
/** If the statistics lag by more than this, an operator should check the processes. */
const lagMax = 60;

export function Trust() {
  const found = useQuery({ queryKey: ['trust'], queryFn: () => call('GET /trust'), refetchInterval: refreshMs });
  return (
    <div className="stack">
      <div className="head">
        <h1>{t('nav.trust')}</h1>
      </div>
      <p className="muted lead">{t('trust.text')}</p>
      {found.isError && !found.data ? <Failure error={found.error} retry={() => void found.refetch()} /> : null}
      {found.isPending ? (
        <section className="card">
          <Loading lines={6} />
        </section>
      ) : null}
      {found.data ? <State state={found.data} /> : null}
    </div>
  );
}

function State({ state }: { readonly state: TrustAnswer }) {
  const { timezone } = useView();
  const { audit, refused, lag_seconds } = state;
  const tiles: readonly (readonly [name: string, value: string, isGood: boolean | null])[] = [
    [t('trust.lost'), audit.hours === 0 ? '–' : whole(audit.lost), audit.hours === 0 ? null : audit.lost === 0],
    [
      t('trust.duplicated'),
      audit.hours === 0 ? '–' : whole(audit.duplicated),
      audit.hours === 0 ? null : audit.duplicated === 0,
    ],
    [
      t('trust.difference'),
      audit.hours === 0 ? '–' : whole(audit.rollup_difference),
      audit.hours === 0 ? null : audit.rollup_difference === 0,
    ],
    [
      t('trust.lag'),
      lag_seconds === null ? '–' : t('trust.seconds', { count: whole(Math.round(lag_seconds)) }),
      lag_seconds === null ? null : lag_seconds <= lagMax,
    ],
    [t('trust.refused'), whole(refused.records), refused.records === 0],
  ];
  return (
    <>
      <section className="card five" aria-label={t('nav.trust')}>
        <div className="totals">
          {tiles.map(([name, value, isGood]) => (
            <div className="total" key={name}>
              <span className="small muted">{name}</span>
              <output aria-label={name}>{value}</output>
              {isGood === null ? null : (
                <span className={`change ${isGood ? 'up' : 'down'}`}>{t(isGood ? 'trust.good' : 'trust.look')}</span>
              )}
            </div>
          ))}
        </div>
        <p className="caption">
          {audit.audited_to
            ? t('trust.audited', { hours: whole(audit.hours), time: time(audit.audited_to, timezone) })
            : t('trust.not_yet')}
        </p>
      </section>
      <Days days={audit.days} />
      <PipelineCard pipeline={state.pipeline} lag_seconds={lag_seconds} />
      <div className="grid2 top">
        <Refused refused={refused} zone={timezone} />
        <About />
      </div>
    </>
  );
}

const daysShown = 30;

/** One square for each of the last 30 days. */
function Days({ days }: { readonly days: TrustAnswer['audit']['days'] }) {
  const known = new Map(days.map((day) => [day.date, day]));
  const today = Math.floor(Date.now() / 86_400_000);
  const dates = Array.from({ length: daysShown }, (_, at) =>
    new Date((today - daysShown + 1 + at) * 86_400_000).toISOString().slice(0, 10),
  );
  return (
    <section className="card">
      <header>
        <h2>{t('trust.days')}</h2>
      </header>
      <ol className="days inside">
        {dates.map((one) => {
          const day = known.get(one);
          const state = day === undefined ? 'none' : day.faults === 0 ? 'good' : 'bad';
          const text = `${date(one, 'UTC')}: ${
            day === undefined
              ? t('trust.day_none')
              : t('trust.day', { hours: whole(day.hours), faults: whole(day.faults) })
          }`;
          return (
            <li key={one} className={state} title={text}>
              <span className="sr">{text}</span>
            </li>
          );
        })}
      </ol>
      <p className="caption">
        <span>
          <span className="swatch good" /> {t('trust.legend_good')}
        </span>
        <span>
          <span className="swatch bad" /> {t('trust.legend_bad')}
        </span>
        <span>
          <span className="swatch" /> {t('trust.legend_none')}
        </span>
      </p>
    </section>
  );
}

function Refused({ refused, zone }: { readonly refused: TrustAnswer['refused']; readonly zone: string }) {
  return (
    <section className="card">
      <header>
        <h2>{t('trust.refused_title')}</h2>
      </header>
      {refused.reasons.length === 0 ? (
        <p className="inside muted">{t('trust.refused_none')}</p>
      ) : (
        <ScrollArea label={t('trust.refused_title')}>
          <table>
            <thead>
              <tr>
                <th>{t('trust.kind')}</th>
                <th>{t('trust.reason')}</th>
                <th className="num">{t('trust.records')}</th>
                <th className="hide-narrow">{t('trust.last')}</th>
              </tr>
            </thead>
            <tbody>
              {refused.reasons.map(({ kind, reason, records, last_at }) => (
                <tr key={`${kind} ${reason}`}>
                  <td>{named('record', kind)}</td>
                  <td className="mono">{reason}</td>
                  <td className="num">{whole(records)}</td>
                  <td className="hide-narrow muted nowrap" title={time(last_at, zone)}>
                    {ago(last_at)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollArea>
      )}
    </section>
  );
}

/** Explains each figure, for readers who see the page for the first time. */
function About() {
  const rows: readonly (readonly [name: string, text: ReactNode])[] = [
    [t('trust.lost'), t('trust.about_lost')],
    [t('trust.duplicated'), t('trust.about_duplicated')],
    [t('trust.difference'), t('trust.about_difference')],
    [t('trust.lag'), t('trust.about_lag')],
    [t('trust.refused'), t('trust.about_refused')],
  ];
  return (
    <section className="card">
      <header>
        <h2>{t('trust.about')}</h2>
      </header>
      <dl className="inside meanings">
        {rows.map(([name, text]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd className="muted">{text}</dd>
          </Fragment>
        ))}
      </dl>
    </section>
  );
}
