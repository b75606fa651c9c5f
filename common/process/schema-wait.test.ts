import { expect, test } from 'vitest';
import { SchemaWait } from './schema-wait.ts';

test('a check that began before the schema was found does not undo it, although its store is closed by then', async () => {
  const answers: ((lack: string | null) => void)[] = [];
  const lack = () => new Promise<string | null>((answer) => answers.push(answer));
  const schema = new SchemaWait({ lacks: [lack], needs: true, log: { warn: () => undefined } });
  const started = schema.start();
  const checked = schema.check();
  answers[0]?.('');
  await started;
  answers[1]?.(null);
  expect(await checked).toBe(true);
  expect(await schema.check()).toBe(true);
});

test('a process looks for its schema once a second until it is there', async () => {
  const lacks = ['Postgres lacks migration 0002', ''];
  const waits: { readonly ms: number; readonly over: () => void }[] = [];
  const after = (ms: number, over: () => void) => ({ at: waits.push({ ms, over }) });
  const lack = () => Promise.resolve(lacks.shift() ?? '');
  const schema = new SchemaWait({ lacks: [lack], log: { warn: () => undefined }, time: { after } });
  const started = schema.start();
  await expect.poll(() => waits.map(({ ms }) => ms)).toEqual([1_000]);
  waits[0]?.over();
  await started;
  expect([lacks, waits.length]).toEqual([[], 1]);
});
