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
