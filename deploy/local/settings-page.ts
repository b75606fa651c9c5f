/** docs/settings.md, generated from the table of settings and from what each process reads. */
import { type ProcessRole, settingsOfRole } from '#common/process/config-roles.ts';
import type { Setting } from '#common/process/setting-kinds.ts';
import { type SettingName, settings } from '#common/process/settings.ts';

/** The origin is the API and the gateway in one process. */
const roles = (Object.keys(settingsOfRole) as ProcessRole[]).filter((role) => role !== 'origin');

function readersOf(name: SettingName): ProcessRole[] {
  return roles.filter((role) => (settingsOfRole[role] as readonly SettingName[]).includes(name));
}

/** Settings that the same processes read are grouped; groups of the most processes come first. */
function groups(): Map<string, SettingName[]> {
  const found = new Map<string, SettingName[]>();
  const read = (Object.keys(settings) as SettingName[]).map((name) => ({ name, readers: readersOf(name) }));
  for (const { name, readers } of read.sort((a, b) => b.readers.length - a.readers.length)) {
    const title =
      readers.length === roles.length
        ? 'Every process'
        : readers.join(', ') || 'Only npm start, migrations and admin commands';
    found.set(title, [...(found.get(title) ?? []), name]);
  }
  return found;
}

function row(name: SettingName): string {
  const { fallback, about, isSecret }: Setting<unknown> = settings[name];
  const text = Array.isArray(fallback) ? fallback.join(',') : String(fallback);
  return `| \`${name}\`${isSecret ? ' (secret)' : ''} | ${text === '' ? '' : `\`${text}\``} | ${about} |`;
}

export function settingsPage(): string {
  const titles = groups();
  const sections = [...titles].map(([title, names]) =>
    [`## ${title}`, '', '| Name | Default | Meaning |', '|---|---|---|', ...names.map(row), ''].join('\n'),
  );
  return [
    '# Settings',
    '',
    'This page lists every setting with its default and meaning, for operators. Settings are environment variables, grouped by the processes',
    'that read them. `npm start` reads all settings and gives each process its own. `origin` is the `api` and the `gateway` in one process.',
    '',
    'A process does not start if a setting that it reads is invalid, and names all of them at once. To check them without starting anything,',
    'use `npm start -- --validate`, or start any process with `--validate`.',
    '',
    'A secret can be in a file instead, as Docker, Kubernetes and systemd (`LoadCredential`) provide it: set `NAME_FILE` to its path. Line',
    'breaks at its end are ignored. Secrets are marked as such.',
    '',
    '`npm run generate` writes this page from `common/process/settings.ts` and `common/process/config-roles.ts`.',
    '',
    ...sections,
  ].join('\n');
}
