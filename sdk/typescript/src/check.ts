/** What a developer may have misconfigured, in sentences. Loaded only when asked for. */
import type { Connection } from './connection.ts';
import type { ServerClock } from './server-clock.ts';
import type { Finding, Options } from './types.ts';

const linksMax = 10;

export async function findings(
  options: Options,
  connection: Connection,
  clock: ServerClock,
): Promise<readonly Finding[]> {
  const { host, linkHosts = [], apiKey } = options;
  // A batch without events is refused with 400 once the key was accepted.
  const { reply, body } = await connection.ask('/sdk/events', { events: [] }, 'accepted');
  const found: Finding[] = [];
  const add = (part: Finding['part'], ok: boolean, text: string) => found.push({ part, ok, text });
  const isSignpost = reply !== null && typeof body['error'] === 'object';
  if (!reply)
    add('host', false, `${host} does not answer. Check the address, its certificate and this device's network.`);
  else if (!isSignpost) add('host', false, `${host} answers, but is no Signpost server (status ${reply.status}).`);
  else add('host', true, `${host} is a Signpost server.`);
  if (isSignpost) {
    const isKey = reply.status === 400 || reply.status === 429;
    const shown = `The key that ends with ${apiKey.slice(-4)}`;
    if (isKey) add('key', true, `${shown} is accepted.`);
    else
      add(
        'key',
        false,
        `${shown} is refused (status ${reply.status}). Compare it with the app's key in the dashboard.`,
      );
    const offset = clock.offsetMs ?? 0;
    const minutes = Math.round(Math.abs(offset) / 60_000);
    const direction = offset > 0 ? 'behind' : 'ahead of';
    if (minutes === 0) add('clock', true, 'The clock of this device agrees with the server.');
    else
      add(
        'clock',
        false,
        `The clock of this device is ${minutes} minutes ${direction} the server's. Events are sent with the server's time.`,
      );
  }
  for (const name of linkHosts.slice(0, linksMax)) found.push(...(await associations(name)));
  return found;
}

/** Pages can't read these files of another host: then there is no finding. */
async function associations(host: string): Promise<readonly Finding[]> {
  const files = [
    ['apple-app-site-association', 'iOS', 'its team and bundle id'],
    ['assetlinks.json', 'Android', 'its package name and certificate fingerprint'],
  ] as const;
  const found: Finding[] = [];
  for (const [file, system, needs] of files) {
    const url = `https://${host}/.well-known/${file}`;
    const status = await fetch(url, { credentials: 'omit' }).then(
      ({ status }) => status,
      () => 0,
    );
    if (status === 0) continue;
    const ok = status === 200;
    const text = ok
      ? `${url} is served: ${system} opens links of ${host} in the app that it names.`
      : `${url} answers ${status}: ${system} opens links of ${host} in the browser. Set ${needs} in the app's settings.`;
    found.push({ part: 'association', ok, text });
  }
  return found;
}
