/** Watches the processes between this one and the npm that runs it, to detect when they end. */
import { readdirSync, readFileSync } from 'node:fs';

const chainMax = 8;

/** State (a letter) and parent of a process according to /proc (proc(5)); nothing if it has ended. */
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

/** Whether the process is still running; a zombie is not. */
export function isAlive(pid: number): boolean {
  const { state } = statusOf(pid);
  return state !== '' && state !== 'Z' && state !== 'X';
}

/** Whether the process is a zombie: it has ended and its parent has not collected its status. */
export function isZombie(pid: number): boolean {
  return statusOf(pid).state === 'Z';
}

/** Its child processes; none if there is no /proc. */
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

/** Parents from the nearest up to npm, such as `[shell, npm]`. Only the nearest if there is no /proc. */
export function ancestors(): number[] {
  const chain = [process.ppid];
  for (let pid = process.ppid; chain.length < chainMax && pid > 1; ) {
    if (isNpm(pid)) return chain;
    pid = parentOf(pid);
    chain.push(pid);
  }
  return [process.ppid];
}

/** Whether each is still the parent of the one before it. A process whose parent died gets another one. */
export function isIntact(chain: readonly number[]): boolean {
  return chain.every((pid, at) => {
    const child = chain[at - 1];
    return (child === undefined ? process.ppid : parentOf(child)) === pid;
  });
}
