import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { appsIn } from './known-apps.ts';

let server: TestPostgres;
let db: Postgres;
beforeAll(async () => {
  server = await postgresForTest();
  db = new Postgres({ url: server.url, name: 'known-apps-test' });
});
afterAll(async () => {
  await db.close();
  await server.stop();
});

const apple = { bundle_id: 'com.example.a' };
const google = { package_name: 'com.example.a' };

test.each([
  ['neither platform', null, null, true, true],
  ['iOS alone', apple, null, true, false],
  ['Android alone', null, google, false, true],
  ['both', apple, google, true, true],
])(
  'an app with %s has the platforms that are set, or both if none is set',
  async (_, ios, android, has_ios, has_android) => {
    const [organization_id, id] = [newId('org', Date.now()), newId('app', Date.now())];
    await db.execute(`INSERT INTO organizations (id, name) VALUES ($1, 'Apps')`, [organization_id]);
    await db.execute(
      `INSERT INTO apps (id, organization_id, name, host, host_verified_at, ios, android, settings, api_key_ciphertext, api_key_hash,
                       api_key_preview, created_at, updated_at)
     VALUES ($1, $2, 'App', $5, now(), $3, $4, '{"probabilistic_window_hours": 3}', $6, $7, 'lk_', now(), now())`,
      [id, organization_id, ios, android, `${id.slice(-12)}.localhost`, id, Buffer.from(id)],
    );
    expect((await appsIn(db)([id])).get(id)).toEqual({
      attribution_window_hours: 168,
      probabilistic_window_hours: 3,
      has_ios,
      has_android,
    });
  },
);
