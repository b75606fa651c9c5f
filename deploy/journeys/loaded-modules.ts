/** Which modules of OpenTelemetry the processes of a journey have loaded: each lists them in a file when it gets a SIGUSR2. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';

export class LoadedModules {
  readonly #folder = mkdtempSync(join(tmpdir(), 'signpost-modules-'));

  /** For the environment of the processes. */
  get nodeOptions(): string {
    const file = join(this.#folder, 'list.cjs');
    const list = `Object.keys(require.cache).join('\\n')`;
    writeFileSync(
      file,
      `process.on('SIGUSR2', () => require('node:fs').writeFileSync(${JSON.stringify(this.#folder)} + '/' + process.pid, ${list} + '\\nend'));`,
    );
    return `--require=${file}`;
  }

  /** The packages of OpenTelemetry that a process has loaded. */
  async of(pid: number): Promise<string[]> {
    const file = join(this.#folder, String(pid));
    rmSync(file, { force: true });
    process.kill(pid, 'SIGUSR2');
    let text = '';
    await expect
      .poll(() => {
        try {
          text = readFileSync(file, 'utf8');
        } catch {
          // Not written yet.
        }
        return text.endsWith('\nend');
      })
      .toBe(true);
    return [...new Set([...text.matchAll(/node_modules\/(@opentelemetry\/[\w-]+)\//g)].map(([, name]) => name ?? ''))];
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
