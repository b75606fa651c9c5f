import { readFileSync } from 'node:fs';

/** The memory of a process in MiB, as the kernel counts it (proc(5)). */
export function residentMib(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1024);
}
