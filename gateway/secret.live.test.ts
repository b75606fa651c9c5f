import { afterAll, beforeAll, expect, test } from 'vitest';
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { sealedSecretCheck } from '#common/installation-state.ts';
import { SdkEdge } from './testing/sdk-edge.ts';

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start();
});
afterAll(() => edge.stop());

test('with another SECRET_KEY, an SDK is asked to come back later instead of being told that its key is wrong', async () => {
  const { key } = await edge.app();
  const events = { events: [] };
  expect((await edge.post('/sdk/events', key, events)).status).toBe(400);
  const other = newSecretKey('test');
  await edge.db.execute('UPDATE installation SET secret_check = $1', [
    sealedSecretCheck(new Encryption(parseSecretKeys(other))),
  ]);
  await edge.close();
  await edge.open({ SECRET_KEY: newSecretKey('test') });
  for (let n = 0; n < 2; n++) {
    const { status, headers } = await edge.post('/sdk/events', key, events);
    expect([status, headers.get('retry-after')]).toEqual([500, '30']);
  }
});
