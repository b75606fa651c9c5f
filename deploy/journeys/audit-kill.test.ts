/**
 * The audit log while the API is killed right after it answers.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isRunning, type Reply, Stack } from './stack.ts';

const KILLS = 6;

interface Row {
  readonly id: string;
  readonly organization_id: string;
  readonly action: string;
  readonly target_id: string;
}
type Caller = Awaited<ReturnType<Stack['loggedIn']>>;

let stack: Stack;
let call: Caller;
let app: string;
let organization: string;

beforeAll(async () => {
  stack = await Stack.start();
  call = await stack.loggedIn();
  const made = (await call('/apps', { method: 'POST', body: { name: 'Audited' } })).json<{
    id: string;
    organization_id: string;
  }>();
  [app, organization] = [made.id, made.organization_id];
});
afterAll(() => stack.stop());

/** What is sent at once, by the action that the audit log names. */
const changes: readonly (readonly [action: string, path: string, body: (n: number) => object])[] = [
  ['createLink', '/links', (n) => ({ app_id: app, path: `/${n}` })],
  ['createServerKey', '/keys', (n) => ({ name: `Key ${n}`, scopes: ['links:read'] })],
  ['createView', '/views', (n) => ({ name: `View ${n}`, query: {} })],
  ['createUtmTemplate', '/utm-templates', (n) => ({ name: `Template ${n}`, utm_source: 'mail' })],
  ['createApp', '/apps', (n) => ({ name: `App ${n}` })],
  ['createWebhook', '/webhooks', () => ({ url: 'https://hooks.example.com/', events: ['link.created'] })],
];

/** Ids of all rows of a list, by pages. */
async function listed<T>(path: string): Promise<T[]> {
  const all: T[] = [];
  for (;;) {
    const reply = await call(`${path}${path.includes('?') ? '&' : '?'}limit=100&offset=${all.length}`);
    expect(reply.status, reply.text).toBe(200);
    const { data } = reply.json<{ data: T[] }>();
    all.push(...data);
    if (data.length < 100) return all;
  }
}

const answered = (reply: Reply | null): reply is Reply => reply !== null && reply.status === 201;

test(`${KILLS} kills of the API right after an answer: each answered change has one row, and each row its change`, async () => {
  const made: { action: string; id: string }[] = [];
  let n = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const pid = stack.pidOf('origin');
    let isFirst = true;
    const one = async ([action, path, body]: (typeof changes)[number]) => {
      const reply = await call(path, { method: 'POST', body: body(n++) }).catch(() => null);
      if (!answered(reply)) return;
      made.push({ action, id: reply.json<{ id: string }>().id });
      if (isFirst && isRunning(pid)) process.kill(pid, 'SIGKILL');
      isFirst = false;
    };
    await Promise.all(changes.map(one));
    expect(isFirst).toBe(false);
    // The launcher waits longer before each further start.
    await expect.poll(() => isRunning(pid), { timeout: 60_000 }).toBe(false);
    const status = () =>
      call('/me').then(
        ({ status }) => status,
        () => 0,
      );
    await expect.poll(status, { timeout: 60_000 }).toBe(200);
  }
  const rows = (await listed<Row>('/audit-log')).filter(({ action }) => changes.some(([name]) => name === action));
  const rowsOf = (id: string) => rows.filter(({ target_id }) => target_id === id);
  expect(
    made.filter(
      ({ action, id }) =>
        rowsOf(id)
          .map((row) => row.action)
          .join() !== action,
    ),
  ).toEqual([]);
  expect(rows.filter((row) => row.organization_id !== organization)).toEqual([]);
  const existing = new Set<string>();
  for (const path of ['/links', '/keys', '/views', '/utm-templates', '/apps', '/webhooks'])
    for (const { id } of await listed<{ id: string }>(path)) existing.add(id);
  expect(rows.filter(({ target_id }) => !existing.has(target_id))).toEqual([]);
  // A change whose answer was lost has its row too.
  const noted = new Set(rows.map(({ target_id }) => target_id));
  expect([...existing].filter((id) => !noted.has(id))).toEqual([]);
  console.log(`${made.length} changes answered, ${rows.length} rows, ${KILLS} kills`);
});
