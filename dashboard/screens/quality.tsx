/** The accuracy of matching by score on the app's own traffic, and the effect of other settings. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { share, whole } from '#dashboard/format.ts';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { useApps } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { numberIn } from './what-if.tsx';

type QualityAnswer = Answer<'GET /analytics/match-quality'>;

export function Quality() {
  const { get, set } = useAddress();
  const apps = useApps();
  const app = apps.data?.data.find(({ id }) => id === get('app_id')) ?? apps.data?.data[0];
  const [tried, setTried] = useState({ window: '', confidence: '' });
  const query = {
    interval: '90d' as const,
    app_id: app?.id,
    window_hours: numberIn(tried.window, 168),
    min_confidence: numberIn(tried.confidence, 1),
  };
  const quality = useQuery({
    queryKey: ['quality', query],
    queryFn: () => call('GET /analytics/match-quality', { query }),
    enabled: app !== undefined,
    placeholderData: keepPreviousData,
  });
  const found = quality.data;
  const count = found ? found.totals.right + found.totals.wrong + found.totals.missed : 0;
  return (
    <div className="stack">
      <div className="head">
        <h1>{t('nav.quality')}</h1>
        <div className="row push">
          <Choice
            label={t('filter.app_id')}
            isLabelHidden
            value={app?.id ?? ''}
            options={(apps.data?.data ?? []).map(({ id, name }) => [id, name] as const)}
            onChange={(value) => set({ app_id: value })}
          />
        </div>
      </div>
      <p className="muted lead">{t('quality.text')}</p>
      {quality.isError && !found ? <Failure error={quality.error} retry={() => void quality.refetch()} /> : null}
      {found === undefined && !quality.isError && app ? (
        <section className="card">
          <Loading />
        </section>
      ) : null}
      {(found && count === 0) || apps.data?.pagination.total === 0 ? (
        <section className="card">
          <Empty title={t('quality.none')} text={t('quality.none_text')} />
        </section>
      ) : null}
      {found && count > 0 ? <Figures found={found} count={count} /> : null}
      {found && count > 0 ? (
        <section className="card">
          <header>
            <h2>{t('quality.try')}</h2>
          </header>
          <div className="inside grid3">
            <Field
              label={t('app.probabilistic')}
              value={tried.window}
              onChange={(window) => setTried({ ...tried, window })}
              placeholder={String(app?.settings.probabilistic_window_hours ?? '')}
              inputMode="numeric"
            />
            <Field
              label={t('app.confidence')}
              value={tried.confidence}
              onChange={(confidence) => setTried({ ...tried, confidence })}
              placeholder={String(app?.settings.min_confidence ?? '')}
            />
            <div>
              <span className="label">{t('quality.result')}</span>
              <output>
                {found.what_if
                  ? t('quality.would', {
                      precision: ratioText(found.what_if.precision),
                      recall: ratioText(found.what_if.recall),
                    })
                  : '–'}
              </output>
            </div>
          </div>
        </section>
      ) : null}
    </div>
  );
}

const ratioText = (ratio: number | null) => (ratio === null ? t('quality.too_few') : share(ratio));

function Figures({ found, count }: { readonly found: QualityAnswer; readonly count: number }) {
  const { totals, by_platform, by_confidence } = found;
  const tiles = [
    [t('quality.precision'), ratioText(totals.precision)],
    [t('quality.recall'), ratioText(totals.recall)],
    [t('quality.checked'), whole(count)],
  ] as const;
  return (
    <>
      <section className="card three">
        <div className="totals">
          {tiles.map(([name, value]) => (
            <div className="total" key={name}>
              <span className="small muted">{name}</span>
              <output aria-label={name}>{value}</output>
            </div>
          ))}
        </div>
      </section>
      <div className="grid2">
        <section className="card">
          <header>
            <h2>{t('quality.by_confidence')}</h2>
          </header>
          <table>
            <thead>
              <tr>
                <th>{t('debugger.confidence')}</th>
                <th className="num">{t('quality.right')}</th>
                <th className="num">{t('quality.wrong')}</th>
                <th className="num">{t('quality.precision')}</th>
              </tr>
            </thead>
            <tbody>
              {by_confidence.map((band) => (
                <tr key={band.from}>
                  <td>≥ {share(band.from)}</td>
                  <td className="num">{whole(band.right)}</td>
                  <td className="num">{whole(band.wrong)}</td>
                  <td className="num">{band.precision === null ? '–' : share(band.precision)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
        <section className="card">
          <header>
            <h2>{t('list.platforms')}</h2>
          </header>
          <table>
            <thead>
              <tr>
                <th>{t('debugger.platform')}</th>
                <th className="num">{t('quality.right')}</th>
                <th className="num">{t('quality.wrong')}</th>
                <th className="num">{t('quality.missed')}</th>
                <th className="num">{t('quality.recall')}</th>
              </tr>
            </thead>
            <tbody>
              {by_platform.map((row) => (
                <tr key={row.platform}>
                  <td>{named('platform', row.platform)}</td>
                  <td className="num">{whole(row.right)}</td>
                  <td className="num">{whole(row.wrong)}</td>
                  <td className="num">{whole(row.missed)}</td>
                  <td className="num">{row.recall === null ? '–' : share(row.recall)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </div>
    </>
  );
}
