import { expect, test } from 'vitest';
import { openShell } from './shell.ts';

const bash = () => openShell(['bash', '-e'], () => undefined);

test('a shell keeps its folder and variables, and returns what each command prints', async () => {
  const shell = bash();
  await shell.run('cd / && name=value');
  expect(await shell.run('echo "$PWD $name"')).toBe('/ value\n');
  shell.end();
});

test('a command that fails is reported, and so is every command after it', async () => {
  const shell = bash();
  await expect(shell.run('echo before; false')).rejects.toThrow('ended with 1');
  await expect(shell.run('echo after')).rejects.toThrow('ended with 1');
});

test('a shell that is killed is reported', async () => {
  await expect(bash().run('kill -s KILL $$')).rejects.toThrow('ended with SIGKILL');
});
