/** Secrets in files, as Docker, Kubernetes and systemd (LoadCredential) mount them: NAME_FILE instead of NAME. */
import { closeSync, openSync, readSync } from 'node:fs';
import { Fault, type Setting } from './setting-kinds.ts';
import { settings } from './settings.ts';

const secretBytesMax = 65_536;

export function fileOf(name: string): string {
  return `${name}_FILE`;
}

/** The secrets' names, each with _FILE. */
export const secretFileNames = Object.entries<Setting<unknown>>(settings).flatMap(([name, { isSecret }]) =>
  isSecret ? [fileOf(name)] : [],
);

/** The text of a setting: from the environment or, for a secret, from its file without the line breaks at its end. */
export function givenText(env: NodeJS.ProcessEnv, name: string, setting: Setting<unknown>): string | undefined | Fault {
  const given = env[name];
  const path = setting.isSecret ? env[fileOf(name)] : undefined;
  if (path === undefined || path === '') return given;
  if (given !== undefined && given !== '')
    return new Fault(`${name} and ${fileOf(name)} are both set: set one of them`);
  try {
    const text = readBounded(path);
    if (text === null) return new Fault(`${fileOf(name)}: ${path} is larger than ${secretBytesMax} bytes`);
    return text === '' ? new Fault(`${fileOf(name)}: ${path} is empty`) : text;
  } catch (error) {
    return new Fault(`${fileOf(name)} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}

/** Null if it is too large. Does not trust the file's size, because a pipe has none. */
function readBounded(path: string): string | null {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(secretBytesMax + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read) {
      read = readSync(file, bytes, length, bytes.length - length, null);
    }
    if (length > secretBytesMax) return null;
    return bytes.toString('utf8', 0, length).replace(/[\r\n]+$/, '');
  } finally {
    closeSync(file);
  }
}
