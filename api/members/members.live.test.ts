import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let viewer: Member;
let stranger: Member;

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  viewer = await api.member('viewer', owner.organization_id);
  stranger = await api.member();
});
afterAll(() => api.stop());

interface Row {
  readonly user_id: string;
  readonly organization_id: string;
  readonly role: string;
}

test('the members of an organization are listed only for its members', async () => {
  for (const by of [owner, viewer]) {
    const { status, body } = await by.call('GET', '/members');
    expect([status, body.pagination.total]).toEqual([200, 2]);
    const roles = new Map((body.data as Row[]).map((row) => [row.user_id, row.role]));
    expect(roles).toEqual(
      new Map([
        [owner.user_id, 'owner'],
        [viewer.user_id, 'viewer'],
      ]),
    );
    expect(new Set((body.data as Row[]).map((row) => row.organization_id))).toEqual(new Set([owner.organization_id]));
  }
  expect((await stranger.call('GET', '/members')).body.data).toHaveLength(1);
});

test('a list can be narrowed to one organization of the caller; another organization gets a 403, an unknown one a 404', async () => {
  const of = (id: string) => owner.call('GET', `/members?organization_id=${id}`);
  expect((await of(owner.organization_id)).body.data).toHaveLength(2);
  expect((await of(stranger.organization_id)).status).toBe(403);
  expect((await of('org_x')).status).toBe(404);
});

test('pages are consistent, and a deleted user is not listed', async () => {
  const gone = await api.member('member', owner.organization_id);
  const first = (await owner.call('GET', '/members?limit=2')).body;
  const second = (await owner.call('GET', '/members?limit=2&offset=2')).body;
  expect(first.pagination).toEqual({ total: 3, limit: 2, offset: 0, has_more: true });
  expect(second.pagination.has_more).toBe(false);
  const ids = [...first.data, ...second.data].map((row: Row) => row.user_id);
  expect(new Set(ids)).toEqual(new Set([owner.user_id, viewer.user_id, gone.user_id]));
  await api.db.execute('UPDATE users SET deleted_at = now() WHERE id = $1', [gone.user_id]);
  expect((await owner.call('GET', '/members')).body.pagination.total).toBe(2);
});

test('an unknown parameter is a 400 that names it', async () => {
  const { status, body } = await owner.call('GET', '/members?sort=name');
  expect([status, body.error.details.field]).toEqual([400, 'sort']);
});
