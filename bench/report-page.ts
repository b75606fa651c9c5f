/** One HTML page with a chart of every result, which opens without a network. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publishedFolder } from './load/result-file.ts';
import { barChart, escaped } from './report-chart.ts';
import { measurements, type Result } from './report-results.ts';

const style = `
:root { color-scheme: light dark; --text: #1c2430; --soft: #5b6675; --line: #dde3ea; --back: #fff;
  --c0: #2563eb; --c1: #94a3b8; --c2: #f59e0b; --c3: #10b981; --c4: #a855f7; --c5: #ef4444; --c6: #06b6d4; }
@media (prefers-color-scheme: dark) { :root { --text: #e6eaf0; --soft: #9aa5b4; --line: #2b3442; --back: #12161d; --c0: #6091f5; --c1: #64748b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 0; border-top: 1px solid var(--line); padding-top: 1.5rem; }
p.origin, figcaption, footer { color: var(--soft); } p.origin { margin-top: 0.2rem; font-size: 13px; }
figure { margin: 1rem 0 1.6rem; } figcaption { margin-bottom: 0.4rem; } svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
text { fill: var(--text); dominant-baseline: central; } .label { text-anchor: end; } .figure, .key { fill: var(--soft); }
${[0, 1, 2, 3, 4, 5, 6].map((at) => `.c${at} { fill: var(--c${at}); }`).join(' ')}`;

/** The newest result of a measurement: that of this checkout, or the published one. */
function newest(name: string, folder: string): { readonly result: Result; readonly isPublished: boolean } | null {
  const files = [join(folder, `${name}.json`), join(publishedFolder, `${name}.json`)];
  const found = files.flatMap((file, at) =>
    existsSync(file) ? [{ result: JSON.parse(readFileSync(file, 'utf8')) as Result, isPublished: at === 1 }] : [],
  );
  return found.sort((a, b) => String(b.result['time']).localeCompare(String(a.result['time'])))[0] ?? null;
}

function machineOf({ machine }: Result): string {
  if (typeof machine === 'string') return machine;
  const { cpu, cores, node } = (machine ?? {}) as Readonly<Record<string, unknown>>;
  return cores === undefined ? 'unknown machine' : `${String(cores)} × ${String(cpu)}, Node ${String(node)}`;
}

function section(name: string, result: Result, isPublished: boolean): string {
  const [title, chartsOf] = measurements[name] ?? [name, () => []];
  const charts = chartsOf(result).filter(({ rows }) =>
    rows.some(({ values }) => values.some((value) => value !== null)),
  );
  const origin = [String(result['time']), machineOf(result), String(result['commit'] ?? '')].filter(
    (part) => part !== '',
  );
  const kind = isPublished ? 'A published run.' : 'A run of this checkout, rough if it was a small one.';
  return `<section id="${escaped(name)}"><h2>${escaped(title)}</h2>
<p class="origin">${escaped(`${kind} ${origin.join(' · ')}`)}</p>
${charts.map(barChart).join('\n')}</section>`;
}

export function reportPage(folder: string): string {
  const sections = Object.keys(measurements).flatMap((name) => {
    const found = newest(name, folder);
    return found ? [section(name, found.result, found.isPublished)] : [];
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Signpost: measurements</title><style>${style}</style></head>
<body><h1>Signpost: measurements</h1>
<p>CPU time is user and system time of the process, per unit of work. Each baseline was measured in the same run. Shorter is better everywhere.</p>
${sections.join('\n')}
<footer><p>What each figure means, and how it was measured: docs/measurements.md. A single measurement: npm run bench -- NAME.</p></footer>
</body></html>
`;
}

export function writeReport(folder: string): string {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'report.html');
  writeFileSync(file, reportPage(folder));
  return file;
}
