/** One match decision in full: what the device sent, each click that it was compared with, and why. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link as PageLink } from 'wouter';
import { useView } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { share, time } from '#dashboard/format.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { named, t } from '#dashboard/texts/text.ts';
import { OutcomeTag } from './debugger.tsx';
import { useLinkNames } from './live-tail.tsx';

type Match = Answer<'GET /matches/{match_id}'>;
type Candidate = Match['candidates'][number];

export function MatchPage({ id }: { readonly id: string }) {
  const { timezone } = useView();
  const found = useQuery({
    queryKey: ['match', id],
    queryFn: () => call('GET /matches/{match_id}', { params: { match_id: id } }),
  });
  const names = useLinkNames();
  if (found.isError && !found.data) return <Failure error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) {
    return (
      <section className="card">
        <Loading lines={6} />
      </section>
    );
  }
  const match = found.data;
  return (
    <div className="stack">
      <div className="head">
        <PageLink href="/debugger">← {t('match.back')}</PageLink>
        <h1>{time(match.time, timezone)}</h1>
        <OutcomeTag outcome={match.outcome} />
      </div>
      <p className="notice">{match.explanation}</p>
      <div className="grid2">
        <Facts
          title={t('match.request')}
          rows={[
            [t('match.device'), match.device_id],
            [t('match.install'), match.install_id],
            [t('debugger.platform'), named('platform', match.platform)],
            ...signalRows(match.device),
            [t('match.ip'), match.ip],
          ]}
        />
        <Facts
          title={t('match.decision')}
          rows={[
            [t('match.type'), named('match', match.match_type)],
            [t('debugger.confidence'), match.confidence > 0 ? share(match.confidence) : null],
            [t('match.needed'), share(match.settings.min_confidence)],
            [t('match.window'), t('hours', { count: match.settings.probabilistic_window_hours })],
            [t('match.click'), match.click_id],
            [t('match.link'), match.link_id ? <LinkName key="link" id={match.link_id} names={names} /> : null],
            [t('match.without'), match.without_evidence?.explanation ?? null],
          ]}
        />
      </div>
      {match.candidates.map((candidate) => (
        <CandidateCard
          key={candidate.click_id}
          candidate={candidate}
          isChosen={candidate.click_id === match.click_id}
          names={names}
          needed={match.settings.min_confidence}
          zone={timezone}
        />
      ))}
      {match.candidates.length === 0 ? <p className="muted">{t('match.no_candidates')}</p> : null}
    </div>
  );
}

type Names = ReadonlyMap<string, string>;

function LinkName({ id, names }: { readonly id: string; readonly names: Names }) {
  return <PageLink href={`/links/${id}`}>{names.get(id) ?? id}</PageLink>;
}

type Fact = readonly [label: string, value: ReactNode];

function Facts({ title, rows }: { readonly title: string; readonly rows: readonly Fact[] }) {
  return (
    <section className="card">
      <header>
        <h2>{title}</h2>
      </header>
      <dl className="facts inside">
        {rows.flatMap(([label, value]) =>
          value ? [<dt key={label}>{label}</dt>, <dd key={`${label} `}>{value}</dd>] : [],
        )}
      </dl>
    </section>
  );
}

function signalRows(signals: Match['device']): Fact[] {
  return [
    [t('match.os'), [signals.system, signals.os_version ?? signals.os_version_at_least].filter(Boolean).join(' ')],
    [t('match.model'), signals.device_model],
    [t('match.languages'), signals.languages?.join(', ')],
    [t('match.timezone'), signals.timezone],
    [t('match.screens'), signals.screens?.map((screen) => screen.join(' × ')).join(', ')],
  ];
}

interface CandidateCardProps {
  readonly candidate: Candidate;
  readonly isChosen: boolean;
  readonly names: Names;
  readonly needed: number;
  readonly zone: string;
}

function CandidateCard({ candidate, isChosen, names, needed, zone }: CandidateCardProps) {
  return (
    <section className="card">
      <header>
        <h2>{t('match.candidate', { time: time(candidate.clicked_at, zone) })}</h2>
        {isChosen ? <span className="tag good">{t('match.chosen')}</span> : null}
        <span className={`tag push ${!candidate.gate && candidate.confidence >= needed ? 'good' : ''}`}>
          {candidate.gate ? named('gate', candidate.gate) : share(candidate.confidence)}
        </span>
      </header>
      <div className="inside stack">
        <p>{candidate.explanation}</p>
        {candidate.factors.length > 0 ? (
          <ul className="factors">
            {candidate.factors.map((factor) => (
              <li key={factor.factor}>
                <span>{named('factor', factor.factor)}</span>
                <span className="meter" aria-hidden="true">
                  <span style={{ width: `${factor.of > 0 ? (factor.points / factor.of) * 100 : 0}%` }} />
                </span>
                <span className="num">{t('match.points', { points: round(factor.points), of: round(factor.of) })}</span>
              </li>
            ))}
          </ul>
        ) : null}
        <span className="small">
          <LinkName id={candidate.link_id} names={names} />
        </span>
      </div>
    </section>
  );
}

const round = (value: number) => Math.round(value * 10) / 10;
