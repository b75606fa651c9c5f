import { afterEach, beforeEach, expect, test } from 'vitest';
import { Nats } from '#common/stores/nats.ts';
import { natsForTest, type TestServer } from '#testing/servers.ts';
import { defaultInstallation } from './log-names.ts';
import { ensureLogStream, keepLogStream, logFill } from './log-stream.ts';

let server: TestServer;
let nats: Nats;
const log = { bytesMax: 20_000_000, replicas: 1 };

beforeEach(async () => {
  server = await natsForTest();
  nats = await Nats.connect({ url: server.url, name: 'test', installation: defaultInstallation });
});
afterEach(async () => {
  await nats.close();
  await server.stop();
});

test('the size of a log that holds records is changed by ingest in both directions, and no record is lost', async () => {
  await keepLogStream(nats, log, () => undefined);
  const lane = { kind: 'click', partition: 0 } as const;
  for (let n = 0; n < 20; n++) await nats.request(nats.names.subjectOf(lane), Buffer.alloc(1_000));
  const before = await logFill(nats);
  for (const bytesMax of [40_000_000, 10_000]) {
    const lines: string[] = [];
    await keepLogStream(nats, { ...log, bytesMax }, (line) => lines.push(line), { isOwner: true });
    expect(lines).toEqual(['the settings of the log were changed: max_bytes']);
    expect(await logFill(nats)).toEqual({ ...before, bytesMax });
  }
});

test("other fields of the log's configuration survive a change of its size", async () => {
  await keepLogStream(nats, log, () => undefined);
  const info = JSON.parse(String((await nats.request(nats.names.api('STREAM.INFO')))?.bytes));
  const described = { ...info.config, description: 'ours' };
  await nats.request(nats.names.api('STREAM.UPDATE'), Buffer.from(JSON.stringify(described)));
  expect(await ensureLogStream(nats, { ...log, bytesMax: 30_000_000 }, { isOwner: true })).toMatchObject({
    state: 'ready',
  });
  const after = JSON.parse(String((await nats.request(nats.names.api('STREAM.INFO')))?.bytes));
  expect(after.config).toMatchObject({ description: 'ours', max_bytes: 30_000_000 });
});

test('a publisher accepts a log of another size unchanged', async () => {
  await keepLogStream(nats, log, () => undefined);
  await keepLogStream(nats, { ...log, bytesMax: 30_000_000 }, () => undefined);
  expect((await logFill(nats))?.bytesMax).toBe(log.bytesMax);
});

test('if the log does not fit the storage of the server, the reason names the settings to change', async () => {
  const outcome = await ensureLogStream(nats, { ...log, bytesMax: 2_000_000_000_000 }, {});
  const reason = expect.stringMatching(/^insufficient storage .*max_file_store .*LOG_BYTES_MAX$/);
  expect(outcome).toEqual({ state: 'unavailable', reason });
});

test('a log that could lose records is refused, and the error names the fields', async () => {
  const lossy = { name: 'log', subjects: ['log.>'], storage: 'memory', max_bytes: 20_000_000 };
  await nats.request(nats.names.api('STREAM.CREATE'), Buffer.from(JSON.stringify(lossy)));
  await expect(keepLogStream(nats, log, () => undefined, { isOwner: true })).rejects.toThrow('discard, storage');
});

test('a log belongs to the first installation whose ingest sees it, and no other one uses it', async () => {
  const warn = () => undefined;
  expect(await keepLogStream(nats, log, warn)).toBe('');
  expect(await keepLogStream(nats, log, warn, { installationId: 'b' })).toBe('');
  expect(await keepLogStream(nats, log, warn, { isOwner: true, installationId: 'a' })).toBe('a');
  expect(await keepLogStream(nats, { ...log, bytesMax: 30_000_000 }, warn, { isOwner: true })).toBe('a');
  expect(await keepLogStream(nats, log, warn, { isOwner: true, installationId: 'a' })).toBe('a');
  for (const isOwner of [true, false]) {
    const refused = keepLogStream(nats, log, warn, { isOwner, installationId: 'b' });
    await expect(refused).rejects.toThrow('belongs to a different installation of Signpost (a)');
  }
});

test('two installations with different names share a server, and neither sees what the other writes', async () => {
  const other = await Nats.connect({ url: server.url, name: 'test', installation: 'other' });
  for (const one of [nats, other]) await keepLogStream(one, log, () => undefined);
  const lane = { kind: 'click', partition: 0 } as const;
  const subjects: string[] = [];
  other.subscribe(other.names.marks, ({ subject }) => subjects.push(subject));
  await nats.request(nats.names.subjectOf(lane), Buffer.alloc(1));
  nats.publish(nats.names.marks, Buffer.alloc(1));
  await other.request(other.names.subjectOf(lane), Buffer.alloc(1));
  await other.request(other.names.subjectOf(lane), Buffer.alloc(1));
  await nats.flush();
  other.publish(other.names.marks, Buffer.alloc(1));
  await expect.poll(() => subjects).toEqual(['other.ingest.marks']);
  expect([(await logFill(nats))?.messages, (await logFill(other))?.messages]).toEqual([1, 2]);
  await other.close();
});
