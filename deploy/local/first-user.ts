import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#common/paths.ts';
import { StartupError } from './child.ts';

export interface FirstUser {
  readonly env: NodeJS.ProcessEnv;
  readonly email: string;
  readonly password: string;
}

/**
 * Makes the first user and organization when there is no user yet.
 * @returns whether one was made.
 */
export function createFirstUser(user: FirstUser): Promise<boolean> {
  const admin = join(packageRoot(), 'dist', 'api', 'admin.js');
  if (!existsSync(admin)) return Promise.resolve(false);
  const env = { ...user.env, ADMIN_EMAIL: user.email, ADMIN_PASSWORD: user.password };
  return new Promise((done, fail) => {
    execFile(process.execPath, [admin, 'create-user', '--if-none'], { env }, (error, stdout, stderr) => {
      if (error === null) done(stdout.includes(user.email));
      else fail(new StartupError(`The first user could not be made: ${stderr.trim().split('\n').slice(-3).join(' ')}`));
    });
  });
}
