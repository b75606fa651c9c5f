/** The period, the time zone and the filters of a screen, and the keys that change them. */
import { useEffect } from 'react';
import {
  type FilterName,
  filterNames,
  type Interval,
  intervals,
  ownZone,
  shifted,
  shownValue,
  useAddress,
} from '#dashboard/address.ts';
import { country, date, languageName, region } from '#dashboard/format.ts';
import { onKeys } from '#dashboard/shortcuts.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { Choice } from './fields.tsx';
import { Icon } from './icons.tsx';

interface Range {
  readonly start: string;
  readonly end: string;
}

/** @param range the range of the API's response; null while loading. */
export function PeriodBar({ range, zone }: { readonly range: Range | null; readonly zone: string }) {
  const { get, set } = useAddress();
  const isRange = get('start') !== null && get('end') !== null;
  const interval = intervals.find((one) => one === get('period')) ?? '30d';
  const choose = (period: Interval) => set({ period: period === '30d' ? null : period, start: null, end: null });
  useEffect(() => {
    const clear = () => set(Object.fromEntries([...filterNames, 'start', 'end', 'period'].map((name) => [name, null])));
    const move = (steps: number) => () => {
      if (range && get('period') !== 'all') set({ ...shifted(range.start, range.end, steps, zone), period: null });
    };
    return onKeys({
      Escape: clear,
      d: () => choose('24h'),
      w: () => choose('7d'),
      m: () => choose('30d'),
      y: () => choose('12mo'),
      ArrowLeft: move(-1),
      ArrowRight: move(1),
    });
  });
  const move = (steps: number) => range && set({ ...shifted(range.start, range.end, steps, zone), period: null });
  const shown = isRange && range ? rangeText(range, zone) : '';
  const options = intervals.map((one) => [one, named('period', one)] as const);
  return (
    <div className="row push">
      <button
        type="button"
        className="icon"
        aria-label={t('period.earlier')}
        disabled={!range}
        onClick={() => move(-1)}
      >
        <Icon name="back" />
      </button>
      <button
        type="button"
        className="icon"
        aria-label={t('period.later')}
        disabled={!range || Date.parse(range.end) > Date.now()}
        onClick={() => move(1)}
      >
        <Icon name="forward" />
      </button>
      <Choice
        label={t('period.label')}
        isLabelHidden
        value={isRange ? 'range' : interval}
        options={isRange ? [['range', shown] as const, ...options] : options}
        onChange={(value) => value !== 'range' && choose(value)}
      />
      <ZoneChoice zone={zone} onChange={(tz) => set({ tz: tz === ownZone ? null : tz })} />
    </div>
  );
}

function rangeText({ start, end }: Range, timeZone: string): string {
  const last = new Date(Date.parse(end) - 1).toISOString();
  return `${date(start, timeZone)} – ${date(last, timeZone)}`;
}

function ZoneChoice({ zone, onChange }: { readonly zone: string; readonly onChange: (zone: string) => void }) {
  const zones = [...new Set([zone, ownZone, 'UTC', ...Intl.supportedValuesOf('timeZone')])];
  return (
    <Choice
      label={t('zone.label')}
      isLabelHidden
      value={zone}
      options={zones.map((one) => [one, one.replaceAll('_', ' ')] as const)}
      onChange={onChange}
    />
  );
}

/** @param names of apps and links by id, as far as they are known. */
export function FilterChips({ names }: { readonly names: ReadonlyMap<string, string> }) {
  const { get, set } = useAddress();
  const active = filterNames.flatMap((name) => {
    const value = get(name);
    return value === null ? [] : [[name, value] as const];
  });
  if (active.length === 0) return null;
  return (
    <div className="row wrap">
      {active.map(([name, value]) => (
        <Chip
          key={name}
          label={t(`filter.${name}`)}
          value={valueText(name, shownValue(value), names)}
          onRemove={() => set({ [name]: null })}
        />
      ))}
    </div>
  );
}

interface ChipProps {
  readonly label: string;
  readonly value: string;
  readonly onRemove: () => void;
}

export function Chip({ label, value, onRemove }: ChipProps) {
  return (
    <span className="chip">
      <span className="cut">
        <span className="muted">{label}</span> {value}
      </span>
      <button type="button" aria-label={t('filter.remove', { name: label })} onClick={onRemove}>
        <Icon name="close" />
      </button>
    </span>
  );
}

function valueText(name: FilterName, value: string, names: ReadonlyMap<string, string>): string {
  if (name === 'country') return country(value);
  if (name === 'region') return region(value);
  if (name === 'language') return languageName(value);
  if (name === 'platform') return named('platform', value);
  return names.get(value) ?? (value === '' ? t('none') : value);
}
