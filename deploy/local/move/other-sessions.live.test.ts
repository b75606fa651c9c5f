import { expect, test } from 'vitest';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest } from '#testing/servers.ts';
import { otherSessions } from './postgres-tables.ts';

test('a process that is connected with a role that the owner is no member of is seen before stores are moved', async () => {
  const database = await postgresForTest();
  const url = new URL(database.url);
  const owner = new Postgres({ url: url.href, name: 'owner', connectionsMax: 1 });
  const role = `mover_${url.pathname.slice(1)}`;
  await owner.execute(`CREATE ROLE ${role} LOGIN PASSWORD 'mover'`);
  [url.username, url.password] = [role, 'mover'];
  const mover = new Postgres({ url: url.href, name: 'mover', connectionsMax: 1 });
  try {
    const idle = await otherSessions(mover);
    const process = new Postgres({
      url: database.urlAs('signpost_redirector'),
      name: 'redirector-0',
      connectionsMax: 1,
    });
    await process.query('SELECT 1');
    const seen = await otherSessions(mover);
    await process.close();
    expect([idle, seen]).toEqual([['owner'], ['owner', 'redirector-0']]);
  } finally {
    await mover.close();
    await owner.execute(`DROP ROLE ${role}`);
    await owner.close();
    await database.stop();
  }
});
