import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test, vi } from 'vitest';
import { skipWithout } from '#testing/skip.ts';
import { findProgram } from './programs.ts';
import { Systemd } from './systemd.ts';

/** Node has no datagram sockets of Unix. */
const receiver = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('bound', flush=True)
while True: print(s.recv(4096).decode(), flush=True)
`;

test('while it waits for servers or migrates, systemd is told again and again to wait, and then that it is ready', {
  timeout: 180_000,
}, async (context) => {
  const [python, notify] = [findProgram(['python3']), findProgram(['systemd-notify'])];
  skipWithout(python !== undefined && notify !== undefined, 'python3 and systemd-notify', context);
  const folder = mkdtempSync(join(tmpdir(), 'signpost-systemd-'));
  const socket = join(folder, 'notify');
  const child = spawn(python ?? '', ['-c', receiver, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  await vi.waitUntil(() => lines.includes('bound'), { timeout: 60_000 });
  vi.stubEnv('NOTIFY_SOCKET', socket);
  const faults: string[] = [];
  try {
    const extensions = () => lines.filter((line) => line === 'EXTEND_TIMEOUT_USEC=300000000').length;
    const systemd = new Systemd((line) => faults.push(line));
    expect(await systemd.patiently(() => vi.waitUntil(() => extensions() >= 3, { timeout: 60_000 }), 50)).toBe(true);
    systemd.ready();
    await vi.waitUntil(() => lines.some((line) => line.includes('READY=1')), { timeout: 60_000 });
    expect(faults).toEqual([]);
  } finally {
    vi.unstubAllEnvs();
    child.kill();
    await once(child, 'exit');
    rmSync(folder, { recursive: true });
  }
});
