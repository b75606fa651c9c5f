import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { defaultInstallation } from '#common/log/log-names.ts';
import { Nats } from '#common/stores/nats.ts';
import { Ballast } from '#deploy/faults/ballast.ts';
import { mountDisk, unmountDisk } from '#deploy/faults/store.ts';
import { startNats } from './nats.ts';

const create = Buffer.from(
  JSON.stringify({ name: 'log', subjects: ['log.>'], storage: 'file', max_bytes: 1_000_000_000 }),
);
const record = Buffer.alloc(50_000, 'x');

test.runIf(process.getuid?.() === 0)(
  'a server that refuses every write after its disk was full exits once there is room, and works when started again',
  { tags: ['slow'] },
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'signpost-nats-full-'));
    mountDisk(dataDir, 32);
    const write = async (to: Nats) => (await to.request('log.a', record, 500))?.bytes.includes('"seq"') ?? false;
    const server = await startNats({ dataDir });
    const nats = await Nats.connect({ url: server.url, name: 'test', installation: defaultInstallation });
    try {
      await nats.request('$JS.API.STREAM.CREATE.log', create);
      expect(await write(nats)).toBe(true);
      const ballast = new Ballast(dataDir);
      ballast.fill();
      await expect.poll(() => write(nats), { timeout: 10_000 }).toBe(false);
      expect(server.hasExited()).toBe(false);
      ballast.remove();
      await expect.poll(() => server.hasExited(), { timeout: 15_000 }).toBe(true);
      await server.stop();
      const again = await startNats({ dataDir, port: server.port });
      await expect.poll(() => write(nats), { timeout: 10_000 }).toBe(true);
      await again.stop();
    } finally {
      await nats.close();
      await server.stop();
      unmountDisk(dataDir);
      rmSync(dataDir, { recursive: true, force: true });
    }
  },
);
