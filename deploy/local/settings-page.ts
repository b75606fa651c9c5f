/** docs/settings.md, written from the table of settings. */
import { settings } from '#common/process/settings.ts';

export function settingsPage(): string {
  const rows = Object.entries(settings).map(([name, setting]) => {
    const fallback = Array.isArray(setting.fallback) ? setting.fallback.join(',') : String(setting.fallback);
    return `| \`${name}\` | ${fallback === '' ? '' : `\`${fallback}\``} | ${setting.about} |`;
  });
  return [
    '# Settings',
    '',
    'Every setting is a variable of the environment. A value that is out of bounds stops the process at its start, and all',
    'faults are named at once. Written by `npm run generate` from `common/process/config.ts`.',
    '',
    '| Name | Default | What it is |',
    '|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}
