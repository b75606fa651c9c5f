/** The only place that reads the environment. All faults are reported at once. */
import { contentFaults } from './config-contents.ts';
import { type ProcessConfig, type ProcessRole, settingsOfRole } from './config-roles.ts';
import { type Config, Fault, type Setting, type SettingName, settings } from './settings.ts';
import { unknownSettings } from './unknown-settings.ts';

export class ConfigError extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(
      `The settings have ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:\n  ${faults.join('\n  ')}`,
    );
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

/**
 * Reads every setting from the environment.
 * @param required settings that this process cannot run without; of a list, one is enough.
 * @throws ConfigError naming every fault.
 */
export function loadConfig(
  required: readonly (SettingName | readonly SettingName[])[] = [],
  env: NodeJS.ProcessEnv = process.env,
): Config {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(settings)) {
    const given = env[name];
    const value = given === undefined || given === '' ? setting.fallback : setting.parse(given);
    if (value instanceof Fault) {
      faults.push(`${name} ${value.reason}${setting.isSecret ? '' : `, not ${JSON.stringify(given)}`}`);
    } else {
      values[name] = value;
    }
  }
  for (const names of required.map((one) => (typeof one === 'string' ? [one] : one))) {
    const [first] = names;
    if (first === undefined || names.some((name) => values[name] !== '')) continue;
    faults.push(`${names.join(' or ')} is not set: ${settings[first].about}`);
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return values as Config;
}

/**
 * The same for a process of ours, which gets its own settings only: faults end it with a message and without a trace. With --validate it ends in any case, so that
 * settings can be tried before anything is started with them.
 */
export function processConfig<Role extends ProcessRole>(
  _role: Role,
  required: readonly (ProcessSetting<Role> | readonly ProcessSetting<Role>[])[],
): ProcessConfig<Role> {
  closeNewFiles();
  try {
    for (const line of misspelledSettings()) console.error(line);
    const config = loadConfig(required);
    if (!isValidationOnly()) return config;
    const faults = contentFaults(config);
    if (faults.length > 0) throw new ConfigError(faults);
    console.log('The settings are valid.');
    process.exit(0);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    process.exit(1);
  }
}

/** Whether this process was started to check its settings and to do nothing else. */
export function isValidationOnly(): boolean {
  return process.argv.includes('--validate');
}

/** One sentence for each variable of the environment that is nearly a setting. */
export function misspelledSettings(): string[] {
  return unknownSettings(process.env);
}

type ProcessSetting<Role extends ProcessRole> = (typeof settingsOfRole)[Role][number];

/** What this process makes from now on, files and children's files, is for its own user alone. */
export function closeNewFiles(): void {
  process.umask(0o077);
}

/** Variables that are the system's or Node's, without which a program does not run as its user wants it to. */
const systemVariables = [
  ...['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SystemRoot'],
  ...['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'UWS_HTTP_MAX_HEADERS_SIZE'],
];

/** The environment without any setting of ours, for programs that are not ours. */
export function systemEnvironment(): NodeJS.ProcessEnv {
  return pick(systemVariables);
}

/** The environment of a process of ours: the settings that it reads, some of them replaced (or, by '', left out). */
export function processEnvironment(
  role: ProcessRole,
  changes: Partial<Record<SettingName, string>>,
): NodeJS.ProcessEnv {
  const all = { ...largeHeads, ...systemEnvironment(), ...pick(settingsOfRole[role]), ...changes };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
}

function pick(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}

/** The environment of a child process: this one's, with some settings replaced. */
export function childEnvironment(changes: Partial<Record<SettingName, string>>): NodeJS.ProcessEnv {
  return { ...largeHeads, ...process.env, ...changes };
}

/** uWebSockets.js reads the limit of a request's head when it is loaded; its own 4 KiB are less than our cookies and filters need. */
const largeHeads = { UWS_HTTP_MAX_HEADERS_SIZE: '16384' };

/** For a process that loads uWebSockets.js later and was started without this environment. */
export function allowLargeHeads(): void {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= largeHeads.UWS_HTTP_MAX_HEADERS_SIZE;
}

/** The folders in which programs are looked for, as the environment gives them. */
export function searchPath(): string {
  return process.env.PATH ?? '';
}

/** Whether npm runs this process, as a script of the package. */
export function isRunByNpm(): boolean {
  return process.env.npm_lifecycle_event !== undefined;
}
