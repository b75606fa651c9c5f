/** The funnel: how many clicks or installs reach each of several steps. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { filterValue, shownValues, useAddress, useView } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { share, whole } from '#dashboard/format.ts';
import { listOf, listText } from '#dashboard/list-text.ts';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { GrowthHead } from '#dashboard/parts/growth-head.tsx';
import { named, t } from '#dashboard/texts/text.ts';

type Step = Answer<'GET /analytics/funnel'>['steps'][number];

const starts = ['click', 'install'] as const;
const windows = ['1', '24', '168', '720'] as const;

export function Funnel() {
  const { get, set } = useAddress();
  const view = useView();
  const from = starts.find((one) => one === get('start_with')) ?? 'click';
  const hours = windows.find((one) => one === get('within')) ?? '168';
  const events = get('steps') ?? '';
  const query = { ...view, from, events: events || undefined, window_hours: Number(hours) };
  const found = useQuery({
    queryKey: ['funnel', query],
    queryFn: () => call('GET /analytics/funnel', { query }),
    placeholderData: keepPreviousData,
  });
  const steps = found.data?.steps ?? [];
  return (
    <div className="stack">
      <GrowthHead range={found.data ?? null} />
      <section className="card">
        <header>
          <h2>{t('funnel.title')}</h2>
        </header>
        <div className="inside grid3 ends2">
          <Choice
            label={t('funnel.from')}
            value={from}
            options={starts.map((one) => [one, t(`funnel.${one}`)] as const)}
            onChange={(one) => set({ start_with: one === 'click' ? null : one })}
          />
          <Steps key={events} events={events} onChange={(text) => set({ steps: text || null })} />
          <Choice
            label={t('funnel.within')}
            value={hours}
            options={windows.map((one) => [one, t(`funnel.hours_${one}`)] as const)}
            onChange={(one) => set({ within: one === '168' ? null : one })}
          />
        </div>
        {found.isError && !found.data ? (
          <div className="inside">
            <Failure error={found.error} retry={() => void found.refetch()} />
          </div>
        ) : null}
        {found.isPending ? <Loading lines={4} /> : null}
        {found.data && (steps[0]?.count ?? 0) === 0 ? (
          <Empty title={t('cohort.none')} text={t('funnel.none')} />
        ) : (
          <ol className="funnel inside" aria-busy={found.isPlaceholderData}>
            {steps.map((step, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: an event may be two steps
              <FunnelStep key={`${at} ${step.step}`} step={step} isFirst={at === 0} />
            ))}
          </ol>
        )}
        <p className="caption">{t('funnel.about')}</p>
      </section>
    </div>
  );
}

/** Sent with Enter or when the field loses focus, because each change would cost an expensive query. */
function Steps({ events, onChange }: { readonly events: string; readonly onChange: (events: string) => void }) {
  const [text, setText] = useState(listText(shownValues(events)));
  const send = () => {
    const next = listOf(text).map(filterValue).join(',');
    if (next !== events) onChange(next);
  };
  return (
    <form
      onBlur={send}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Field
        label={t('funnel.events')}
        value={text}
        onChange={setText}
        placeholder="sign_up, purchase"
        hint={t('funnel.events_hint')}
      />
    </form>
  );
}

function FunnelStep({ step, isFirst }: { readonly step: Step; readonly isFirst: boolean }) {
  return (
    <li>
      <div className="row">
        <span className="strong">{named('record', step.step)}</span>
        <span className="num push">{whole(step.count)}</span>
        <span className="num share">{share(step.rate)}</span>
      </div>
      <span className="meter" aria-hidden="true">
        <span style={{ width: `${step.rate * 100}%` }} />
      </span>
      {isFirst ? null : (
        <span className="small muted">{t('funnel.of_previous', { share: share(step.rate_of_previous) })}</span>
      )}
    </li>
  );
}
