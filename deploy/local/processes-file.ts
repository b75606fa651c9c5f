import { renameSync, writeFileSync } from 'node:fs';

export interface ListedProcess {
  readonly name: string;
  readonly pid: number;
  /** Base of /metrics, /healthz and /readyz; null for a server that is not part of Signpost. */
  readonly metrics_url: string | null;
}

/** Replaces the file from which operators and tests learn the running processes. */
export function writeProcesses(file: string, processes: readonly ListedProcess[]): void {
  writeFileSync(`${file}.new`, `${JSON.stringify(processes, null, 2)}\n`);
  renameSync(`${file}.new`, file);
}
