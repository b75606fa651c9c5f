/** The only place that reads the environment. All errors are reported at once. */
import { contentFaults } from './config-contents.ts';
import {
  type ProcessConfig,
  type ProcessRole,
  settingsOfRole,
  settingsOfTool,
  type Tool,
  type ToolConfig,
} from './config-roles.ts';
import { fileOf, givenText } from './secret-files.ts';
import { Fault, type Setting } from './setting-kinds.ts';
import { type Config, type SettingName, settings } from './settings.ts';
import { isServiceLink, unknownSettings } from './unknown-settings.ts';

export class ConfigError extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(`The settings are not valid:\n  ${faults.join('\n  ')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

const allSettings = Object.keys(settings) as SettingName[];

/**
 * Reads settings from the environment, or from the file that NAME_FILE names if NAME is a secret. @param required
 * settings that this process cannot run without; of a list, one is enough. @param read the settings that are read; the
 * others keep their defaults, whatever the environment has. @throws ConfigError with every error.
 */
export function loadConfig(
  required: readonly (SettingName | readonly SettingName[])[] = [],
  env: NodeJS.ProcessEnv = process.env,
  read: readonly SettingName[] = allSettings,
): Config {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(settings)) {
    const given = read.includes(name as SettingName) ? givenText(env, name, setting) : undefined;
    if (given instanceof Fault) {
      faults.push(given.reason);
      continue;
    }
    const value = given === undefined || given === '' ? setting.fallback : setting.parse(given);
    if (value instanceof Fault) {
      const shown = setting.isSecret
        ? ''
        : `, not ${JSON.stringify(given)}${isServiceLink(given) ? serviceLinkAdvice : ''}`;
      faults.push(`${name} ${value.reason}${shown}`);
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

const serviceLinkAdvice =
  ', which Kubernetes sets for a Service of that name: set it yourself, or set enableServiceLinks: false';

/**
 * The same for one process, which gets only its own settings: errors end the process with a message and without a stack
 * trace. With --validate it always ends, so that settings can be checked before anything is started.
 */
export function processConfig<Role extends ProcessRole>(
  role: Role,
  required: readonly (ProcessSetting<Role> | readonly ProcessSetting<Role>[])[],
): ProcessConfig<Role> {
  closeNewFiles();
  try {
    for (const line of misspelledSettings()) console.error(line);
    const config = loadConfig(required, process.env, settingsOfRole[role]);
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

/** The settings that a tool reads. @throws ConfigError */
export function toolConfig<One extends Tool>(tool: One, required: readonly SettingName[] = []): ToolConfig<One> {
  return loadConfig(required, process.env, settingsOfTool[tool]);
}

/** Whether this process was only started to validate its settings. */
export function isValidationOnly(): boolean {
  return process.argv.includes('--validate');
}

/** One sentence for each environment variable that looks like a misspelled setting. */
export function misspelledSettings(): string[] {
  return unknownSettings(process.env);
}

type ProcessSetting<Role extends ProcessRole> = (typeof settingsOfRole)[Role][number];

/** Files that this process and its children create from now on are accessible only to their user. */
export function closeNewFiles(): void {
  process.umask(0o077);
}

/** Variables of the system or of Node, which programs need in order to run as their user expects. */
const systemVariables = [
  ...['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'SystemRoot'],
  ...['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'UWS_HTTP_MAX_HEADERS_SIZE'],
];

/** The environment without Signpost's settings, for other programs. */
export function systemEnvironment(): NodeJS.ProcessEnv {
  return pick(systemVariables);
}

/** The environment of a process: the settings that it reads, some of them replaced (or omitted, by ''). */
export function processEnvironment(
  role: ProcessRole,
  changes: Partial<Record<SettingName, string>>,
): NodeJS.ProcessEnv {
  const unchanged = settingsOfRole[role].filter((name) => changes[name] === undefined);
  const own = pick(unchanged.flatMap((name) => [name, fileOf(name)]));
  const all = { ...largeHeads, ...systemEnvironment(), ...own, ...changes };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
}

function pick(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}

/** The environment of a child process: this one's, with some settings replaced. */
export function childEnvironment(changes: Partial<Record<SettingName, string>>): NodeJS.ProcessEnv {
  return { ...largeHeads, ...process.env, ...changes };
}

/**
 * uWebSockets.js reads its maximum request head size when it is loaded; the default of 4 KiB is less than cookies and
 * filters may need.
 */
const largeHeads = { UWS_HTTP_MAX_HEADERS_SIZE: '16384' };

/** For a process that loads uWebSockets.js later and was started without this environment. */
export function allowLargeHeads(): void {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= largeHeads.UWS_HTTP_MAX_HEADERS_SIZE;
}

/** The folders of the PATH, in which programs are looked up. */
export function searchPath(): string {
  return process.env.PATH ?? '';
}

/** Where systemd waits to be told that this service is ready; empty if it does not. */
export function notifySocket(): string {
  return process.env.NOTIFY_SOCKET ?? '';
}

/** Whether npm runs this process, as a script of the package. */
export function isRunByNpm(): boolean {
  return process.env.npm_lifecycle_event !== undefined;
}
