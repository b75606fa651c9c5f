/** Shows the effect of other matching settings on the app's own traffic, before they are saved. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { call } from '#dashboard/api.ts';
import { share, whole } from '#dashboard/format.ts';
import type { App } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

interface WhatIfProps {
  readonly app: App;
  readonly windowHours: string;
  readonly confidence: string;
}

export function WhatIf({ app, windowHours, confidence }: WhatIfProps) {
  const query = {
    interval: '90d' as const,
    app_id: app.id,
    window_hours: numberIn(windowHours, 168),
    min_confidence: numberIn(confidence, 1),
  };
  const found = useQuery({
    queryKey: ['quality', query],
    queryFn: () => call('GET /analytics/match-quality', { query }),
    placeholderData: keepPreviousData,
  });
  if (!found.data) return null;
  const { totals, what_if } = found.data;
  const count = totals.right + totals.wrong + totals.missed;
  const isSame =
    Number(windowHours) === app.settings.probabilistic_window_hours &&
    Number(confidence) === app.settings.min_confidence;
  const text = (figures: { readonly precision: number | null; readonly recall: number | null }) =>
    t('quality.would', { precision: ratioText(figures.precision), recall: ratioText(figures.recall) });
  return (
    <div className="notice small block" role="status">
      {count === 0 ? (
        t('whatif.none')
      ) : (
        <>
          <span>{t('whatif.now', { count: whole(count), result: text(totals) })}</span>
          {!isSame && what_if ? <strong>{t('whatif.then', { result: text(what_if) })}</strong> : null}
        </>
      )}
    </div>
  );
}

const ratioText = (ratio: number | null) => (ratio === null ? t('quality.too_few') : share(ratio));

export function numberIn(text: string, max: number): number | undefined {
  const value = Number(text.replace(',', '.'));
  return text.trim() !== '' && value >= 0 && value <= max ? value : undefined;
}
