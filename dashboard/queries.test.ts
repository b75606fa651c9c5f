import { QueryClient } from '@tanstack/react-query';
import { expect, test } from 'vitest';
import { showStored } from './queries.ts';

function slowAnswer() {
  let resolve: (text: string) => void = () => undefined;
  const promise = new Promise<string>((settle) => {
    resolve = settle;
  });
  return { promise, resolve: (text: string) => resolve(text) };
}

test('a read that was in flight during a change does not replace what was stored', async () => {
  const client = new QueryClient();
  const { promise, resolve } = slowAnswer();
  client.setQueryData(['app', '1'], 'oldest');
  const read = client.fetchQuery({ queryKey: ['app', '1'], queryFn: () => promise }).catch(() => undefined);
  const other = client.fetchQuery({ queryKey: ['app', '1', 'other'], queryFn: () => promise });
  await showStored(client, ['app', '1'], 'stored');
  resolve('old');
  await Promise.all([read, other]);
  expect(client.getQueryData(['app', '1'])).toBe('stored');
  expect(client.getQueryData(['app', '1', 'other'])).toBe('old');
  client.clear();
});

test('the first read of what was stored does not replace it either', async () => {
  const client = new QueryClient();
  const { promise, resolve } = slowAnswer();
  const read = client.fetchQuery({ queryKey: ['app', '1'], queryFn: () => promise }).catch(() => undefined);
  await showStored(client, ['app', '1'], 'stored');
  resolve('old');
  await read;
  expect(client.getQueryState(['app', '1'])).toMatchObject({ data: 'stored', status: 'success', fetchStatus: 'idle' });
  client.clear();
});
