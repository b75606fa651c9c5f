/** Draws bar charts as SVG inside the page, without loading anything and without scripts. */
export interface Chart {
  readonly title: string;
  readonly unit: string;
  readonly series: readonly string[];
  /** A value for each of the series; null leaves the bar out. */
  readonly rows: readonly { readonly label: string; readonly values: readonly (number | null)[] }[];
  /** Puts the bars of a row one after the other instead of one below the other. */
  readonly isStacked?: boolean;
}

const width = 860;
const labelWidth = 300;
const barHeight = 16;
const rowGap = 10;
const legendHeight = 26;
/** Room for the figure behind the longest bar. */
const figureWidth = 90;

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

export function shown(value: number): string {
  return value.toLocaleString('en-US', value >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
}

const sum = (values: readonly (number | null)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);

export function barChart(chart: Chart): string {
  const { rows, isStacked = false, series } = chart;
  const most = Math.max(
    ...rows.flatMap(({ values }) => (isStacked ? [sum(values)] : values.map((value) => value ?? 0))),
  );
  const scale = most > 0 ? (width - labelWidth - figureWidth) / most : 0;
  const rowHeight = (isStacked ? 1 : series.length) * barHeight + rowGap;
  const drawn = rows.map((row, at) => {
    const top = legendHeight + at * rowHeight;
    const middle = top + (rowHeight - rowGap) / 2;
    const label = `<text class="label" x="${labelWidth - 10}" y="${middle}">${escaped(row.label)}</text>`;
    return label + (isStacked ? stackedBars(row.values, top, scale) : besideBars(row.values, top, scale));
  });
  const height = legendHeight + rows.length * rowHeight;
  return `<figure><figcaption>${escaped(chart.title)}, ${escaped(chart.unit)}</figcaption>
<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(chart.title)}">${legend(series)}${drawn.join('')}</svg></figure>`;
}

function legend(series: readonly string[]): string {
  if (series.length < 2) return '';
  let x = labelWidth;
  return series
    .map((name, at) => {
      const entry = `<rect class="c${at}" x="${x}" y="3" width="11" height="11" rx="2"/><text class="key" x="${x + 16}" y="9">${escaped(name)}</text>`;
      x += 34 + name.length * 7;
      return entry;
    })
    .join('');
}

function besideBars(values: readonly (number | null)[], top: number, scale: number): string {
  return values
    .map((value, at) => {
      if (value === null) return '';
      const y = top + at * barHeight;
      const length = Math.max(1, value * scale);
      return (
        `<rect class="c${at}" x="${labelWidth}" y="${y}" width="${length.toFixed(1)}" height="${barHeight - 3}" rx="2"/>` +
        `<text class="figure" x="${(labelWidth + length + 6).toFixed(1)}" y="${y + barHeight / 2 - 1}">${shown(value)}</text>`
      );
    })
    .join('');
}

function stackedBars(values: readonly (number | null)[], top: number, scale: number): string {
  let x = labelWidth;
  const bars = values.map((value, at) => {
    const length = (value ?? 0) * scale;
    const bar = `<rect class="c${at}" x="${x.toFixed(1)}" y="${top}" width="${length.toFixed(1)}" height="${barHeight - 3}"/>`;
    x += length;
    return bar;
  });
  return `${bars.join('')}<text class="figure" x="${(x + 6).toFixed(1)}" y="${top + barHeight / 2 - 1}">${shown(sum(values))}</text>`;
}
