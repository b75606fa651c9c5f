import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePort, portFor } from './ports.ts';

test('a free port is used unchanged', async () => {
  const port = await freePort();
  expect(await portFor('The API', port, 'API_PORT')).toBe(port);
});

test('a port in use and a foreign address get different one-sentence errors', async () => {
  const port = await freePort();
  const taken = createServer().listen(port, '127.0.0.1');
  await expect(portFor('The API', port, 'API_PORT')).rejects.toThrow(
    /is in use: .* or set API_PORT to another port\.$/,
  );
  await new Promise((done) => taken.close(done));
  await expect(portFor('The API', port, 'API_PORT', '192.0.2.1')).rejects.toThrow(
    /\(EADDRNOTAVAIL\): is 192\.0\.2\.1 an/,
  );
});
