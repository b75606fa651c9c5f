/** Newer releases than the one under test, in the repository from which the machine pulls. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export function git(folder: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=docs-run', '-c', 'user.email=docs-run@example.com'];
  return execFileSync('git', ['-C', folder, ...identity, ...args], { encoding: 'utf8' });
}

export class Releases {
  readonly #folder: string;

  /** @param folder of the repository, and of a working copy. */
  constructor(folder: string) {
    this.#folder = join(folder, 'work');
    git(folder, 'clone', '--quiet', join(folder, 'sources.git'), this.#folder);
  }

  /** One that starts. */
  publish(): void {
    git(this.#folder, 'commit', '--quiet', '--allow-empty', '--message=A newer release');
    git(this.#folder, 'push', '--quiet');
  }

  /** One that ends its start with an error, before the stores are migrated. */
  publishBroken(): void {
    this.#change('deploy/local/start.ts', '  makeDataFolderPrivate(dataDir);', 'This release is broken.');
    this.#publishChanges('A broken release');
  }

  /** One that migrates Postgres, and then ends its start with an error. */
  publishMigratedAndBroken(): void {
    git(this.#folder, 'revert', '--no-edit', 'HEAD');
    writeFileSync(join(this.#folder, 'pg-migrations/9999_docs_run.sql'), 'CREATE TABLE docs_run (number int);\n');
    this.#change(
      'deploy/local/launcher.ts',
      '    await this.#checkInstallation(owner, key);',
      'It is broken once migrated.',
    );
    this.#publishChanges('A broken release with a migration');
  }

  #change(file: string, statement: string, message: string): void {
    const path = join(this.#folder, file);
    const before = readFileSync(path, 'utf8');
    if (!before.includes(statement)) throw new Error(`${file} has no ${statement}`);
    writeFileSync(path, before.replace(statement, `  throw new StartupError('${message}');`));
  }

  #publishChanges(message: string): void {
    git(this.#folder, 'add', '--all');
    git(this.#folder, 'commit', '--quiet', `--message=${message}`);
    git(this.#folder, 'push', '--quiet');
  }
}
