/** Unpacks an earlier release from the Git history, ready to start. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';

/** Whether the clone has the commit: a shallow one may not. */
export function isInHistory(commit: string): boolean {
  try {
    execFileSync('git', ['cat-file', '-e', `${commit}^{commit}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Unpacks the sources of a release, with links to this version's packages as its own. */
export function unpackRelease(commit: string, folder: string): void {
  const archive = execFileSync('git', ['archive', commit], { maxBuffer: 256 * 1024 * 1024 });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  const [own, nats] = [
    join(packageRoot(), 'node_modules'),
    join(packageRoot(), 'deploy/packages/nats-server/node_modules'),
  ];
  mkdirSync(join(folder, 'node_modules'));
  for (const packages of [own, nats]) {
    for (const name of readdirSync(packages).filter((one) => one !== '.package-lock.json')) {
      symlinkSync(join(packages, name), join(folder, 'node_modules', name));
    }
  }
}
