/** Deliveries with a real Postgres, using the process's own role, whose clock a test drives. */
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { newId } from '#common/ids.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { newWebhookSecret, webhookSecretContext } from '#common/webhooks/webhook-secret.ts';
import { postgresForTest } from '#testing/servers.ts';
import { type ChoreParts, Chores } from '#webhooks/chores.ts';
import { Deliveries, type DeliveryParts } from '#webhooks/deliveries.ts';
import { MessageStore } from '#webhooks/message-store.ts';

export interface EndpointForTest {
  readonly id: string;
  readonly organization_id: string;
  readonly secret: string;
}

interface MessageOfTest {
  readonly id: string;
  readonly status: string;
  readonly tries: number;
  readonly due_at: Date;
  readonly lease: string | null;
}

export interface WebhooksStage {
  /** As the owner. */
  readonly db: Postgres;
  /** As the process's role. */
  readonly ownUrl: string;
  readonly encryption: Encryption;
  readonly secretKey: string;
  /** The clock of Postgres, as statements of the message store see it. */
  nowMs: number;
  newOrganization(): Promise<string>;
  endpoint(
    url: string,
    more?: {
      organizationId?: string;
      events?: string[];
      appIds?: string[];
      eventNames?: string[];
      /** Turns the endpoint into a postback. */
      postback?: { method: 'GET' | 'POST'; body?: string; campaigns?: string[] };
    },
  ): Promise<EndpointForTest>;
  /** Adds messages for an endpoint. @returns their ids, in the order in which they are claimed. */
  addMessages(endpoint: EndpointForTest, count?: number, type?: string): Promise<string[]>;
  /** A process of its own. */
  process(parts?: Partial<DeliveryParts>): Deliveries;
  /** Delivers all due messages with one process. */
  deliverAll(by?: Deliveries): Promise<void>;
  /** Claims messages and sends nothing. */
  claimOnly(max: number): Promise<string[]>;
  chores(pendingMax?: number): Promise<void>;
  /** The chores of one process. */
  newChores(parts?: Partial<ChoreParts>): Chores;
  message(id: string): Promise<MessageOfTest | undefined>;
  endpointRow(id: string): Promise<{ disabled_reason: string | null; failing_since: Date | null } | undefined>;
  outcomes(endpoint: EndpointForTest): Promise<string[]>;
  stop(): Promise<void>;
}

const quiet = { warn: () => undefined, info: () => undefined, error: () => undefined };

export async function webhooksStage(): Promise<WebhooksStage> {
  const postgres = await postgresForTest();
  const db = new Postgres({ url: postgres.url, name: 'test' });
  // Its now() is found before the one of Postgres.
  await db.execute(
    `CREATE SCHEMA test_clock; CREATE TABLE test_clock.reading (at timestamptz); INSERT INTO test_clock.reading VALUES (now());
     CREATE FUNCTION test_clock.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT at FROM test_clock.reading';
     CREATE FUNCTION test_clock.signpost_deletion_time() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT public.signpost_deletion_time() + (at - pg_catalog.now()) FROM test_clock.reading';
     UPDATE ingest.deletion_clock SET reached = now() + interval '1 hour';
     GRANT USAGE ON SCHEMA test_clock TO PUBLIC; GRANT SELECT ON test_clock.reading TO PUBLIC`,
  );
  const url = new URL(postgres.urlAs('signpost_webhooks'));
  url.searchParams.set('options', '-c search_path=test_clock,pg_catalog,public');
  const own = new Postgres({ url: url.href, name: 'webhooks-test' });
  let [shownMs, showing] = [0, Promise.resolve()];
  const shown = () => {
    const { nowMs } = stage;
    if (nowMs !== shownMs) {
      shownMs = nowMs;
      showing = showing.then(async () => {
        await db.execute('UPDATE test_clock.reading SET at = $1', [new Date(nowMs)]);
      });
    }
    return showing;
  };
  const secretKey = newSecretKey('test');
  const encryption = new Encryption(parseSecretKeys(secretKey));
  const store = new MessageStore({
    query: (...statement) => shown().then(() => own.query(...statement)),
    execute: (...statement) => shown().then(() => own.execute(...statement)),
    transaction: (work) => shown().then(() => own.transaction(work)),
  });
  const stage: WebhooksStage = {
    db,
    ownUrl: postgres.urlAs('signpost_webhooks'),
    encryption,
    secretKey,
    nowMs: Date.now(),
    newOrganization: async () => {
      const id = newId('org', Date.now());
      await db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [id]);
      return id;
    },
    endpoint: async (url, { organizationId, events = ['link.created'], appIds, eventNames, postback } = {}) => {
      const id = newId(postback === undefined ? 'whk' : 'pbk', stage.nowMs);
      const organization_id = organizationId ?? (await stage.newOrganization());
      const secret = newWebhookSecret();
      await db.execute(
        `INSERT INTO webhook_endpoints (id, organization_id, url, events, app_ids, secret_ciphertext, event_names, postback_method, postback_body, campaigns,
           created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, least($11, now()), least($11, now()))`,
        [
          id,
          organization_id,
          url,
          events,
          appIds ?? null,
          postback === undefined ? encryption.encrypt(secret, webhookSecretContext(id)) : null,
          eventNames ?? null,
          postback?.method ?? null,
          postback?.body ?? null,
          postback?.campaigns ?? null,
          new Date(stage.nowMs),
        ],
      );
      return { id, organization_id, secret };
    },
    addMessages: async (endpoint, count = 1, type = 'endpoint.test') => {
      const rows = await db.query<{ id: string }>(
        `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data, due_at)
         SELECT signpost_webhook_message_id($1, gen_random_uuid()::text), $1, $2, $3, $4, jsonb_build_object('n', n), $4::timestamptz - interval '1 ms' * ($5 - n)
           FROM generate_series(1, $5::int) AS n RETURNING id, due_at`,
        [endpoint.id, endpoint.organization_id, type, new Date(stage.nowMs), count],
      );
      return rows.map(({ id }) => id);
    },
    process: (parts = {}) =>
      new Deliveries({
        store,
        encryption,
        readClicks: () => Promise.reject(new Error('no clicks in this test')),
        readQuery: () => Promise.reject(new Error('no clicks in this test')),
        shortUrl: (host, code) => `https://${host}/${code}`,
        resolve: () => Promise.reject(new Error('no names in this test')),
        reachable: new ReachableAddresses(['127.0.0.1']),
        clock: () => stage.nowMs,
        log: quiet,
        maySend: () => true,
        ...parts,
      }),
    deliverAll: async (by = stage.process()) => {
      while ((await by.claim()) > 0) await by.settled();
    },
    claimOnly: async (max) => (await store.claim('test', max)).map(({ id }) => id),
    chores: (pendingMax) => stage.newChores(pendingMax === undefined ? {} : { pendingMax }).look(),
    newChores: (parts = {}) => new Chores({ store, log: quiet, maySend: () => true, isHeld: () => false, ...parts }),
    message: async (id) => {
      const sql = 'SELECT id, status, tries, due_at, lease FROM webhook_messages WHERE id = $1';
      return (await db.query<MessageOfTest>(sql, [id]))[0];
    },
    endpointRow: async (id) => {
      const sql = 'SELECT disabled_reason, failing_since FROM webhook_endpoints WHERE id = $1';
      return (await db.query<{ disabled_reason: string | null; failing_since: Date | null }>(sql, [id]))[0];
    },
    outcomes: async (endpoint) => {
      const sql = 'SELECT outcome FROM webhook_attempts WHERE endpoint_id = $1 ORDER BY id';
      return (await db.query<{ outcome: string }>(sql, [endpoint.id])).map(({ outcome }) => outcome);
    },
    stop: async () => {
      await Promise.all([db.close(), own.close()]);
      await postgres.stop();
    },
  };
  return stage;
}
