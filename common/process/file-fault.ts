/** What to do about an error of the file system, by its code. */
const remedies: Readonly<Record<string, string>> = {
  EACCES: 'run this as the user that owns it, or give this user access',
  EPERM: 'run this as the user that owns it, or give this user access',
  ENOSPC: 'its disk is full. Free some space',
  EDQUOT: 'its disk quota is used up. Free some space',
  EROFS: 'its file system is read-only. Use another folder, or in a systemd unit add it to ReadWritePaths',
  ENOENT: 'it does not exist',
  ENOTDIR: 'a part of its path is not a folder',
  EIO: 'its disk reports an error. Check the disk',
};

/** One sentence for an operator about an error of the file system; null for any other error. */
export function fileFault(error: unknown): string | null {
  if (!(error instanceof Error && 'code' in error && 'syscall' in error)) return null;
  const [code, call] = [String(error.code), String(error.syscall)];
  const remedy = remedies[code];
  if (remedy === undefined || call === 'connect' || call === 'listen') return null;
  // An error of a file that is already open names no path.
  const path = 'dest' in error && error.dest ? error.dest : 'path' in error ? error.path : undefined;
  return `${path ?? 'A file'} cannot be used (${code} at ${call}): ${remedy}.`;
}
