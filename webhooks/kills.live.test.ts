/**
 * The webhooks process is killed at every step of its work, twice, and the next process continues.
 *
 * @module-tag slow
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { leaseMs } from './message-store.ts';
import { commitBatch, storeRows } from './testing/stored-batches.ts';
import { type WebhooksStage, webhooksStage } from './testing/webhooks-stage.ts';
import { WebhooksToKill } from './testing/webhooks-to-kill.ts';

let stage: WebhooksStage;
let database: TestDatabase;
let clickhouse: ClickHouse;
let receiver: Receiver;
let webhooks: WebhooksToKill;
let batchNo = 0;
const accepted: Receiver['answer'] = (response) => response.writeHead(204).end();
const refused: Receiver['answer'] = (response) => response.writeHead(500).end();
const patience = { timeout: 60_000, interval: 50 };

beforeAll(async () => {
  [stage, database] = await Promise.all([webhooksStage(), clickhouseForTest()]);
  clickhouse = new ClickHouse({ url: database.url });
  webhooks = await WebhooksToKill.create(stage, database.url);
});
beforeEach(async () => {
  receiver = await receiverForTest();
});
afterEach(async () => {
  await webhooks.stop();
  await receiver.stop();
  await stage.db.execute('DELETE FROM webhook_endpoints');
});
afterAll(async () => {
  await clickhouse.close();
  await Promise.all([stage.stop(), database.stop()]);
});

interface Row {
  readonly id: string;
  readonly status: string;
  readonly lease: string | null;
  readonly due_at: Date;
  readonly delivered: number;
}

const rows = () =>
  stage.db.query<Row>(
    `SELECT id, status, lease, due_at,
            (SELECT count(*) FROM webhook_attempts a WHERE a.message_id = m.id AND a.outcome = 'delivered') AS delivered
       FROM webhook_messages m ORDER BY id`,
  );

/** Records of one organization with three endpoints: two subscribe to installs, one to clicks. */
class Facts {
  readonly #organizationId: string;
  readonly #installs: readonly string[];
  readonly #clicks: string;
  /** The path of an endpoint and the record for which it has a message. */
  readonly expected: string[] = [];

  private constructor(organizationId: string, installs: readonly string[], clicks: string) {
    this.#organizationId = organizationId;
    this.#installs = installs;
    this.#clicks = clicks;
  }

  static async begin(): Promise<Facts> {
    const organizationId = await stage.newOrganization();
    const installs = ['/hook/a', '/hook/b'];
    for (const path of installs) {
      await stage.endpoint(urlOf(path), { organizationId, events: ['install.recorded'] });
    }
    await stage.endpoint(urlOf('/hook/clicks'), { organizationId, events: ['click.batch'] });
    return new Facts(organizationId, installs, '/hook/clicks');
  }

  /** Two batches, the second with an even number, each of three installs and two clicks. */
  async add(): Promise<void> {
    for (const no of [++batchNo, ++batchNo]) {
      const at = { organization_id: this.#organizationId, app_id: 'app_1' };
      const installs = [1, 2, 3].map((n) => `ins_${no}_${n}`);
      const clicks = [1, 2].map((n) => `clk_${no}_${n}`);
      const rowsOf = (name: string, ids: readonly string[]) => ids.map((id) => ({ ...at, [name]: id }));
      await storeRows(clickhouse, 'installs', rowsOf('install_id', installs), no);
      await storeRows(clickhouse, 'clicks', rowsOf('click_id', clicks), no);
      await commitBatch(stage.db, ['installs', 'clicks'], no);
      this.expected.push(...this.#installs.flatMap((path) => installs.map((id) => `${path} ${id}`)));
      this.expected.push(`${this.#clicks} ${clicks.join()}`);
    }
  }
}

const urlOf = (path: string) => receiver.url.replace('/hook', path);

/** The record that each request reports, and the message id. */
function told(): { readonly id: string; readonly fact: string }[] {
  return receiver.received.map(({ headers, path, body }) => {
    const { data } = JSON.parse(body) as { data: { install_id?: string; clicks?: { click_id: string }[] } };
    const what = data.install_id ?? (data.clicks ?? []).map(({ click_id }) => click_id).join();
    return { id: String(headers['webhook-id']), fact: `${path} ${what}` };
  });
}

function countOf(ids: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}

/** Expires leases, instead of waiting for them. */
async function passTime(): Promise<void> {
  await stage.db.execute(
    `UPDATE webhook_messages SET due_at = due_at - interval '${leaseMs} milliseconds' WHERE status = 'pending'`,
  );
}

/**
 * What must hold after a process was just killed. @returns what was delivered, and how often each message had been
 * sent.
 */
async function checkKilled(): Promise<Map<string, number>> {
  const known = await rows();
  const sent = countOf(receiver.ids());
  const leased = known.filter(({ lease }) => lease !== null);
  for (const { due_at } of leased) expect(due_at.getTime()).toBeLessThanOrEqual(Date.now() + leaseMs);
  // Of the requests that the receiver got, only running attempts are not recorded.
  const noted = known.filter(({ status, delivered }) => status === 'delivered' && delivered === 1);
  const accounted = new Set([...noted, ...leased].map(({ id }) => id));
  expect([...sent.keys()].filter((id) => !accounted.has(id))).toEqual([]);
  return new Map(noted.map(({ id }) => [id, sent.get(id) ?? 0]));
}

interface Moment {
  readonly name: string;
  /** Where a statement of the process is blocked; absent: the receiver blocks the request. */
  readonly trigger?: string;
  readonly answer?: Receiver['answer'];
  /** Whether the endpoints have failed before. */
  readonly isFailing?: boolean;
}

const moments: readonly Moment[] = [
  {
    name: 'while it adds the second of the messages of a batch',
    trigger: "BEFORE INSERT ON webhook_messages FOR EACH ROW WHEN (NEW.data ->> 'install_id' LIKE '%\\_2')",
  },
  {
    name: 'after the answer, before the outcome is stored',
    trigger: 'BEFORE INSERT ON webhook_attempts FOR EACH ROW',
  },
  {
    name: 'while the batch and its messages are committed',
    trigger: 'AFTER INSERT ON webhook_messages DEFERRABLE INITIALLY DEFERRED FOR EACH ROW',
  },
  { name: 'when it has taken a batch', trigger: 'BEFORE DELETE ON webhook_batches FOR EACH ROW' },
  {
    name: 'when it has removed a batch, before its records are read',
    trigger: 'AFTER DELETE ON webhook_batches FOR EACH ROW',
  },
  {
    name: 'when it has added all messages of a batch',
    trigger: 'AFTER INSERT ON webhook_messages FOR EACH STATEMENT',
  },
  {
    name: 'between two batches',
    trigger: 'BEFORE DELETE ON webhook_batches FOR EACH ROW WHEN (OLD.batch_no % 2 = 0)',
  },
  {
    name: 'while it claims messages',
    trigger: 'AFTER UPDATE ON webhook_messages FOR EACH ROW WHEN (OLD.lease IS NULL AND NEW.lease IS NOT NULL)',
  },
  { name: 'after the request, before the answer', answer: () => undefined },
  {
    name: 'in the middle of the answer',
    answer: (response) => response.writeHead(200, { 'content-length': '100' }).write('half'),
  },
  {
    name: 'when the attempt is stored, before the message is marked as delivered',
    trigger: "BEFORE UPDATE ON webhook_messages FOR EACH ROW WHEN (NEW.status = 'delivered')",
  },
  {
    name: 'while the outcome is committed',
    trigger: 'AFTER INSERT ON webhook_attempts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW',
  },
  {
    name: 'while it notes that an endpoint fails',
    trigger: 'BEFORE UPDATE OF failing_since ON webhook_endpoints FOR EACH ROW',
    answer: refused,
  },
  {
    name: 'while it notes that an endpoint works again',
    trigger: 'BEFORE UPDATE OF failing_since ON webhook_endpoints FOR EACH ROW WHEN (NEW.failing_since IS NULL)',
    isFailing: true,
  },
];

testCostlyCases(
  moments,
  1,
  'killed $name, twice, the webhooks process creates one message for each record and endpoint, and delivers it under one id',
  async ({ trigger, answer = accepted, isFailing = false }) => {
    const facts = await Facts.begin();
    let settled = new Map<string, number>();
    for (const _kill of [1, 2]) {
      await facts.add();
      if (isFailing) await stage.db.execute('UPDATE webhook_endpoints SET failing_since = now()');
      receiver.answer = answer;
      const before = receiver.received.length;
      if (trigger === undefined) await webhooks.killWhen(() => receiver.received.length > before);
      else await webhooks.killAtTrigger(trigger);
      settled = new Map([...(await checkKilled()), ...settled]);
      await passTime();
    }
    await facts.add();
    receiver.answer = accepted;
    const last = webhooks.start();
    const open = async () => [
      (await stage.db.query('SELECT FROM webhook_batches')).length,
      (await rows()).filter(({ status, lease }) => status !== 'delivered' || lease !== null).length,
    ];
    await expect.poll(async () => (await rows()).length, patience).toBe(facts.expected.length);
    await expect.poll(open, patience).toEqual([0, 0]);
    await webhooks.end(last);

    const requests = told();
    const pairs = [...new Set(requests.map(({ id, fact }) => `${id} ${fact}`))];
    const known = await rows();
    expect([...new Set(requests.map(({ fact }) => fact))].sort()).toEqual([...facts.expected].sort());
    expect(pairs).toHaveLength(facts.expected.length);
    expect([...new Set(requests.map(({ id }) => id))].sort()).toEqual(known.map(({ id }) => id));
    // Each message has one stored delivery, and messages that a killed process had recorded were not sent again.
    expect(known.map(({ delivered }) => delivered)).toEqual(facts.expected.map(() => 1));
    const sent = countOf(receiver.ids());
    expect([...settled].filter(([id, times]) => sent.get(id) !== times)).toEqual([]);
  },
);

test('a batch whose messages need several statements is added completely or not at all', {
  tags: ['slow'],
}, async () => {
  const endpoint = await stage.endpoint(receiver.url, { events: ['install.recorded'] });
  const no = ++batchNo;
  const at = { organization_id: endpoint.organization_id, app_id: 'app_1' };
  const installs = Array.from({ length: 1_100 }, (_, n) => ({ ...at, install_id: `ins_${no}_${n}` }));
  await storeRows(clickhouse, 'installs', installs, no);
  await commitBatch(stage.db, ['installs'], no);
  // The last message of the batch is in the second statement.
  await webhooks.killAtTrigger(
    `BEFORE INSERT ON webhook_messages FOR EACH ROW WHEN (NEW.data ->> 'install_id' = 'ins_${no}_1099')`,
  );
  expect(await rows()).toEqual([]);
  const last = webhooks.start();
  await expect.poll(async () => (await rows()).length, patience).toBe(installs.length);
  await webhooks.end(last);
  const stored = await stage.db.query('SELECT DISTINCT data FROM webhook_messages');
  expect(stored).toHaveLength(installs.length);
});

const disabling: readonly Moment[] = [
  {
    name: 'before the endpoint is disabled',
    trigger: 'BEFORE UPDATE OF disabled_at ON webhook_endpoints FOR EACH ROW',
  },
  {
    name: 'before the endpoint is disabled because it fails for days',
    trigger: 'BEFORE UPDATE OF disabled_at ON webhook_endpoints FOR EACH ROW',
    isFailing: true,
  },
  {
    name: 'before the notice is added',
    trigger: "BEFORE INSERT ON webhook_messages FOR EACH ROW WHEN (NEW.type = 'endpoint.disabled')",
  },
  {
    name: 'while the notice is committed',
    trigger:
      "AFTER INSERT ON webhook_messages DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.type = 'endpoint.disabled')",
  },
];

testCostlyCases(
  disabling,
  1,
  'killed $name, the webhooks process disables a failing endpoint and creates one endpoint.disabled message',
  async ({ trigger = '', isFailing = false }) => {
    const bad = await stage.endpoint(urlOf('/hook/bad'));
    const { organization_id: organizationId } = bad;
    await stage.endpoint(urlOf('/hook/watching'), { organizationId, events: ['endpoint.disabled'] });
    const [id = ''] = await stage.addMessages(bad);
    const sixDaysAgo =
      "UPDATE webhook_endpoints SET created_at = now() - interval '7 days', failing_since = now() - interval '6 days' WHERE id = $1";
    if (isFailing) await stage.db.execute(sixDaysAgo, [bad.id]);
    const [status, reason, state] = isFailing ? [500, 'failing', 'pending'] : [410, 'gone', 'failed'];
    receiver.answer = (response, { path }) => response.writeHead(path === '/hook/bad' ? status : 204).end();
    await webhooks.killAtTrigger(trigger);
    await passTime();
    const last = webhooks.start();
    await expect.poll(async () => (await stage.endpointRow(bad.id))?.disabled_reason, patience).toBe(reason);
    const states = async () => (await rows()).map((row) => row.status).sort();
    await expect.poll(states, patience).toEqual(['delivered', state]);
    await webhooks.end(last);
    expect(await stage.message(id)).toMatchObject({ status: state, tries: 1, lease: null });
    expect(await stage.outcomes(bad)).toEqual(['http_error']);
    const notices = receiver.received.filter(({ path }) => path === '/hook/watching');
    expect(notices.map(({ body }) => JSON.parse(body).data.id)).toEqual([bad.id]);
  },
);

test('messages claimed by a killed process are delivered when the lease ends, not before, and do not block later messages', {
  tags: ['slow'],
}, async () => {
  const facts = await Facts.begin();
  await facts.add();
  // The receiver answers nothing, so what was claimed stays so.
  receiver.answer = () => undefined;
  await webhooks.killWhen(() => receiver.received.length > 0);
  const unanswered = receiver.received.length;
  const claimed = (await rows()).filter(({ lease }) => lease !== null);
  expect(claimed.length).toBeGreaterThan(0);
  const endMs = Math.min(...claimed.map(({ due_at }) => due_at.getTime()));
  const arrivals = new Map<string, number>();
  receiver.answer = (response, { headers }) => {
    arrivals.set(String(headers['webhook-id']), Date.now());
    response.writeHead(204).end();
  };
  await facts.add();
  const last = webhooks.start();
  await expect.poll(() => arrivals.size, { ...patience, timeout: leaseMs + 60_000 }).toBe(facts.expected.length);
  await webhooks.end(last);
  const early = [...arrivals].filter(([, atMs]) => atMs < endMs).map(([id]) => id);
  expect(early.length).toBeGreaterThan(0);
  expect(early.filter((id) => claimed.some((one) => one.id === id))).toEqual([]);
  expect(receiver.received).toHaveLength(unanswered + facts.expected.length);
});
