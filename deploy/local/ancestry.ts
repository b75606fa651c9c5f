/** The processes between this one and the npm that runs it, so that their end is noticed. */
import { readFileSync } from 'node:fs';

const chainMax = 8;

function parentOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0;
  }
}

function isNpm(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('npm');
  } catch {
    return false;
  }
}

/** Parents from the nearest to npm: `[shell, npm]`, say. Just the nearest where /proc can't tell more. */
export function ancestors(): number[] {
  const chain = [process.ppid];
  for (let pid = process.ppid; chain.length < chainMax && pid > 1; ) {
    if (isNpm(pid)) return chain;
    pid = parentOf(pid);
    chain.push(pid);
  }
  return [process.ppid];
}

/** Whether each still is the parent of the one before it. A process whose parent died belongs to another one. */
export function isIntact(chain: readonly number[]): boolean {
  return chain.every((pid, at) => {
    const child = chain[at - 1];
    return (child === undefined ? process.ppid : parentOf(child)) === pid;
  });
}
