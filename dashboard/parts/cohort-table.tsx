/** Cohorts of installs in rows, days after the install in columns; the darker a cell, the larger its figure. */
import type { ReactNode } from 'react';
import { date, whole } from '#dashboard/format.ts';
import { t } from '#dashboard/texts/text.ts';
import { ScrollArea } from './scroll-area.tsx';

interface Cell {
  readonly day: number;
  readonly shown: ReactNode;
  /** 0 to 1. */
  readonly heat: number;
}

export interface Cohort {
  readonly start: string;
  readonly installs: number;
  readonly cells: readonly Cell[];
}

interface CohortTableProps {
  readonly label: string;
  readonly cohorts: readonly Cohort[];
  readonly size: string;
  readonly zone: string;
}

const shades = 5;

export function CohortTable({ label, cohorts, size, zone }: CohortTableProps) {
  const days = cohorts[0]?.cells.map(({ day }) => day) ?? [];
  const style: Intl.DateTimeFormatOptions =
    size === 'month' ? { month: 'short', year: 'numeric' } : { dateStyle: 'medium' };
  return (
    <ScrollArea label={label}>
      <table className="cohorts">
        <thead>
          <tr>
            <th>{t('cohort.of')}</th>
            <th className="num">{t('metric.installs')}</th>
            {days.map((day) => (
              <th key={day} className="num">
                {t('cohort.nth', { day })}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cohorts.map(({ start, installs, cells }) => (
            <tr key={start}>
              <th className="nowrap">{size === 'all' ? t('cohort.all') : date(start, zone, style)}</th>
              <td className="num">{whole(installs)}</td>
              {cells.map(({ day, shown, heat }) => (
                <td key={day} className={`num heat${Math.min(shades, Math.ceil(heat * shades))}`}>
                  {shown}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
