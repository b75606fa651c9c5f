/** A line chart over time, drawn as SVG without a library; it can also be shown as a table. */
import { type PointerEvent, useId, useMemo, useState } from 'react';
import { t } from '#dashboard/texts/text.ts';

export interface Point {
  readonly label: string;
  readonly value: number;
}

interface ChartProps {
  readonly points: readonly Point[];
  /** The same number of buckets of the previous period. */
  readonly before?: readonly Point[] | null;
  readonly title: string;
  readonly format: (value: number) => string;
  readonly axis: (value: number) => string;
  /** The last bucket is incomplete. */
  readonly isPartial?: boolean;
}

const width = 1000;
const height = 240;
const bottom = 22;

export function Chart({ points, before, title, format, axis, isPartial = false }: ChartProps) {
  const [at, setAt] = useState<number | null>(null);
  const shapes = useMemo(() => shapesOf(points, before ?? [], isPartial), [points, before, isPartial]);
  const point = at === null ? undefined : points[at];
  const xOf = (index: number) => (points.length < 2 ? 50 : (index / (points.length - 1)) * 100);
  const move = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const ratio = (event.clientX - box.left) / box.width;
    setAt(Math.max(0, Math.min(points.length - 1, Math.round(ratio * (points.length - 1)))));
  };
  const titleId = useId();
  return (
    <div className="chart">
      {/* Stretched to the width of the page: strokes keep their width, and texts are outside of it. */}
      <svg role="img" aria-labelledby={titleId} onPointerMove={move} onPointerLeave={() => setAt(null)}>
        <title id={titleId}>{title}</title>
        {shapes.rules.map(({ y, value }) => (
          <g key={value}>
            <line className="rule" x1="0" x2="100%" y1={y} y2={y} />
            <text x="0" y={y - 5}>
              {axis(value)}
            </text>
          </g>
        ))}
        {/* biome-ignore lint/a11y/noSvgWithoutTitle: a part of the one above */}
        <svg x="0" y="0" width="100%" height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none">
          {shapes.before ? <path className="line before" vectorEffect="non-scaling-stroke" d={shapes.before} /> : null}
          <path className="area" d={shapes.area} />
          <path className="line" vectorEffect="non-scaling-stroke" d={shapes.line} />
          <path className="line partial" vectorEffect="non-scaling-stroke" d={shapes.partial} />
        </svg>
        {at !== null && point ? (
          <>
            <line className="cross" x1={`${xOf(at)}%`} x2={`${xOf(at)}%`} y1="0" y2={height - bottom} />
            <circle className="dot" cx={`${xOf(at)}%`} cy={shapes.yOf(point.value)} r="4.500" />
          </>
        ) : null}
        {labelsOf(points).map(({ index, label, anchor }) => (
          <text key={index} x={`${xOf(index)}%`} y={height - 4} textAnchor={anchor}>
            {label}
          </text>
        ))}
      </svg>
      {at !== null && point ? (
        <div className="tip" style={xOf(at) > 50 ? { right: `${100 - xOf(at) + 3}%` } : { left: `${xOf(at) + 3}%` }}>
          <span>{point.label}</span>
          <strong>{format(point.value)}</strong>
          {before?.[at] ? <span>{t('chart.before', { value: format(before[at].value) })}</span> : null}
        </div>
      ) : null}
    </div>
  );
}

function shapesOf(points: readonly Point[], before: readonly Point[], isPartial: boolean) {
  const top = niceTop(Math.max(0, ...points.map(({ value }) => value), ...before.map(({ value }) => value)));
  const floor = height - bottom;
  const yOf = (value: number) => floor - (Math.max(0, value) / top) * (floor - 18);
  const xOf = (index: number) => (points.length < 2 ? width / 2 : (index / (points.length - 1)) * width);
  const pathOf = (list: readonly Point[], from = 0) =>
    list
      .map(({ value }, at) => `${at === 0 ? 'M' : 'L'}${xOf(at + from).toFixed(1)} ${yOf(value).toFixed(1)}`)
      .join('');
  const full = isPartial && points.length > 1 ? points.slice(0, -1) : points;
  const line = pathOf(full);
  const whole = pathOf(points);
  return {
    yOf,
    line,
    partial: full === points ? '' : pathOf(points.slice(-2), points.length - 2),
    area: points.length === 0 ? '' : `${whole}L${xOf(points.length - 1)} ${floor}L${xOf(0)} ${floor}Z`,
    before: before.length > 1 ? pathOf(before.slice(0, points.length)) : '',
    rules: [0, 0.5, 1].map((part) => ({ value: top * part, y: yOf(top * part) })),
  };
}

/** The next of 1, 2, 4, 5, 10 … above the largest value. */
function niceTop(max: number): number {
  if (max <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(max));
  return ([1, 2, 4, 5, 10].find((one) => one * size >= max) ?? 10) * size;
}

function labelsOf(points: readonly Point[]): { index: number; label: string; anchor: 'start' | 'middle' | 'end' }[] {
  const last = points.length - 1;
  const wanted = last < 1 ? [0] : [0, Math.round(last / 3), Math.round((2 * last) / 3), last];
  return [...new Set(wanted)].flatMap((index) => {
    const point = points[index];
    const anchor =
      index === 0 && last > 0
        ? ('start' as const)
        : index === last && last > 0
          ? ('end' as const)
          : ('middle' as const);
    return point ? [{ index, label: point.label, anchor }] : [];
  });
}
