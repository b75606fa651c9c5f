/** The processes between this one and the npm that runs it, so that their end is noticed. */
import { readdirSync, readFileSync } from 'node:fs';

const chainMax = 8;

/** State (a letter) and parent of a process, as /proc tells them (proc(5)); none where it has ended. */
function statusOf(pid: number): { readonly state: string; readonly parent: number } {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state = '', parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { state, parent: Number(parent) };
  } catch {
    return { state: '', parent: 0 };
  }
}

function parentOf(pid: number): number {
  return statusOf(pid).parent;
}

/** Whether it still runs: one that has ended and was not waited for does not. */
export function isAlive(pid: number): boolean {
  const { state } = statusOf(pid);
  return state !== '' && state !== 'Z' && state !== 'X';
}

/** The processes that it started. None where there is no /proc. */
export function childrenOf(pid: number): number[] {
  try {
    const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
    return pids.filter((one) => parentOf(one) === pid);
  } catch {
    return [];
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
