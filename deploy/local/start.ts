/** `npm start`: everything on one machine. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  ConfigError,
  closeNewFiles,
  isRunByNpm,
  isValidationOnly,
  loadConfig,
  misspelledSettings,
  systemEnvironment,
} from '#common/process/config.ts';
import { contentFaults } from '#common/process/config-contents.ts';
import { packageRoot } from '#common/process/paths.ts';
import { ancestors, isIntact } from './ancestry.ts';
import { StartupError } from './child.ts';
import { unreachableServers } from './configured-servers.ts';
import { lockFolder } from './folder-lock.ts';
import { faultText, Launcher } from './launcher.ts';
import { refuseMissingServers } from './missing-servers.ts';
import { makeDataFolderPrivate, refuseForeignDataFolder } from './private-folder.ts';
import { createProgress, type Progress } from './progress.ts';
import { Supervisor } from './supervisor.ts';
import { Systemd } from './systemd.ts';

const parentCheckMs = 500;
/** npm and the terminal may both forward one Ctrl-C; a signal later than this is a second one. */
const sameSignalMs = 1_000;

/** Builds dist/ if sources exist and changed since the last build. */
function buildIfStale(): Promise<void> {
  const root = packageRoot();
  const isBuilt = fileURLToPath(import.meta.url).startsWith(join(root, 'dist') + sep);
  if (isBuilt || !existsSync(join(root, 'build.mjs'))) return Promise.resolve();
  return new Promise((done, fail) => {
    const options = { env: systemEnvironment() };
    execFile(process.execPath, [join(root, 'build.mjs'), '--if-stale'], options, (error, _stdout, stderr) => {
      if (error === null) done();
      else fail(new StartupError(`The build failed: ${stderr.trim()}`));
    });
  });
}

async function main(progress: Progress): Promise<void> {
  const config = loadConfig();
  const faults = contentFaults(config);
  for (const line of misspelledSettings()) progress.note(line);
  if (faults.length > 0) throw new ConfigError(faults);
  // A machine may boot before the servers that it uses: what is away is waited for.
  const away = await unreachableServers(config);
  for (const line of away.values()) progress.note(line);
  refuseMissingServers(config);
  if (isValidationOnly()) return progress.text('The settings are valid.');
  const dataDir = resolve(config.DATA_DIR);
  closeNewFiles();
  refuseForeignDataFolder(dataDir);
  makeDataFolderPrivate(dataDir);
  const lock = await lockFolder(dataDir);
  const built = buildIfStale();
  // The code that awaits this promise reports the failure; until then, it must not count as an unhandled rejection.
  built.catch(() => undefined);

  let ending: Promise<void> | undefined;
  const end = (code: number) => {
    ending ??= launcher.stop().then(
      () => finish(code),
      (error: unknown) => {
        progress.fault(faultText(error));
        finish(1);
      },
    );
    return ending;
  };
  const finish = (code: number) => {
    lock.release();
    process.exit(code);
  };
  const supervisor: Supervisor = new Supervisor({
    say: (line) => progress.note(line),
    onChange: () => launcher.listProcesses(),
  });
  const systemd = new Systemd((line) => progress.fault(line));
  const launcher = new Launcher({ config, dataDir, supervisor, systemd, progress, built, away });
  endOnSignals((reason) => {
    progress.note(`${reason}: stopping`);
    void end(0);
  });

  try {
    const text = await launcher.start();
    if (ending !== undefined) return;
    progress.text(text);
    progress.text('ready');
    systemd.ready();
  } catch (error) {
    if (ending === undefined) progress.fault(faultText(error));
    await end(1);
  }
}

/** Stops once, on a signal or when npm ends. A second, later signal exits immediately; the guards clean up. */
function endOnSignals(onEnd: (reason: string) => void): void {
  let first = 0;
  const onReason = (reason: string) => {
    const now = Date.now();
    if (first === 0) {
      first = now;
      onEnd(reason);
    } else if (now - first > sameSignalMs) {
      process.exit(130);
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => onReason(signal));
  if (!isRunByNpm()) return;
  // npm forwards a signal to its shell only, and SIGKILL to no process, so its descendants have to detect its end.
  const chain = ancestors();
  setInterval(() => {
    if (first === 0 && !isIntact(chain)) onReason('npm has exited');
  }, parentCheckMs).unref();
}

const progress = createProgress(process.stdout);
main(progress).catch((error: unknown) => {
  progress.fault(error instanceof ConfigError ? error.message : faultText(error));
  process.exit(1);
});
