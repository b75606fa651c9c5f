import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { RawBody } from '#common/http/raw-body.ts';
import { newId } from '#common/ids.ts';
import { nodeDisk } from '#common/journal/disk.ts';
import { Journal } from '#common/journal/journal.ts';
import { type AppSnapshot, parseSnapshot } from '#common/links/app-snapshot.ts';
import { decodeEventBatch, isEventBatch } from '#common/log/event-batch.ts';
import { decodeEvent, type EventRecord } from '#common/log/event-record.ts';
import { payloadOf } from '#common/log/frame.ts';
import type { LinkFacts } from '#gateway/links/link-facts.ts';
import { RecordWriter } from '#gateway/record-writer.ts';
import { ProducerReader } from '#publisher/producer-reader.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { readBatch } from './batch.ts';
import { EventTracking } from './tracking.ts';

const now = 1_790_000_000_000;
let root: string;
let journal: Journal;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'tracking-'));
  journal = await Journal.open({ root, slot: 'edge', segmentBytes: 1e9, bytesMax: 1e9, sync: 'after_answer' });
});
afterEach(async () => {
  await journal.close();
  rmSync(root, { recursive: true });
});

const app: AppSnapshot = parseSnapshot(
  JSON.stringify({
    ...{ app_id: newId('app', now), organization_id: newId('org', now), version: 1, name: 'App', host: 'a.test' },
    settings: { privacy_mode: 'full_ip', conversion_events: [] },
  }),
);

/** A link index in which every link exists, with the same text in all of its fields. */
function linksWith(text: string) {
  const utm = { utm_source: text, utm_medium: text, utm_campaign: text, utm_term: text, utm_content: text };
  const others = { app_id: app.app_id, host: app.host, short_code: 'abc', path: '/', data: {} };
  return {
    ofApp: async (_: string, ids: readonly string[]) =>
      new Map<string, LinkFacts>(ids.map((id) => [id, { id, campaign: text, ...utm, ...others }])),
  };
}

const times = { receivedMs: now, storeMs: now };

/** Tracks a batch of this many events, each with its own link, as the gateway would. */
async function track(count: number, linkText: string, more: { context?: object; indent?: number } = {}) {
  const events = Array.from({ length: count }, (_, n) => ({
    name: 'view',
    event_id: `e${n}`,
    link_id: newId('lnk', now),
  }));
  const context = { device_id: 'd', ...more.context };
  const body = new RawBody(Buffer.from(JSON.stringify({ context, events }, null, more.indent ?? 0)));
  expect(body.byteLength).toBeLessThan(1_048_576);
  const batch = readBatch(body, times);
  if (!('events' in batch)) throw new Error(batch.message);
  const tracking = new EventTracking(new RecordWriter(journal, 1), linksWith(linkText));
  return { sent: events, answer: await tracking.track(batch, { app, ip: '203.0.113.9', ...times }) };
}

/** Events in the journal, as ingest reads them. */
function journalled(): EventRecord[] {
  const reader = new ProducerReader(nodeDisk, join(root, 'edge', journal.producerId), journal.producerId);
  reader.scan();
  const found: EventRecord[] = [];
  for (let read = reader.next(); read.state === 'frame'; read = reader.next()) {
    const lines = payloadOf(read.frame.bytes, read.frame.header).toString().trimEnd().split('\n');
    for (const line of lines) {
      const members = isEventBatch(line) ? decodeEventBatch(line) : [{ event: decodeEvent(line) }];
      if (typeof members === 'string') throw new Error(members);
      for (const { event } of members) {
        if (typeof event === 'string') throw new Error(event);
        found.push(event);
      }
    }
  }
  reader.close();
  return found;
}

const texts = {
  few: 'summer-sale-2026-newsletter-week-31',
  long: 'x'.repeat(255),
  kanji: '夏'.repeat(255),
  pairs: '😀'.repeat(255),
};

// This case has the most bytes.
testCostlyCases(
  [
    { count: 50, text: texts.few },
    { count: 300, text: texts.few },
    { count: 100, text: texts.long },
    { count: 1_000, text: texts.pairs },
    { count: 1_000, text: texts.kanji },
    { count: 1_000, text: texts.long },
  ],
  4,
  'a batch of $count events is stored completely, however long the fields of their links are',
  async ({ count, text }) => {
    const { sent, answer } = await track(count, text);
    expect(answer).toEqual({ accepted: count, duplicates: 0, rejected: 0, errors: [] });
    const found = journalled();
    expect(found.map(({ event_id, link_id }) => [event_id, link_id])).toEqual(
      sent.map(({ event_id, link_id }) => [event_id, link_id]),
    );
    expect(new Set(found.flatMap((event) => [event.campaign, event.utm_content, event.utm_term]))).toEqual(
      new Set([text]),
    );
  },
);

test('a batch that is written event by event is stored completely, however long the texts that its events share', {
  tags: ['slow'],
}, async () => {
  const context = { device_id: '\u0001'.repeat(256), user_id: '端'.repeat(256), session_id: '😀'.repeat(128) };
  const { answer } = await track(1_000, texts.pairs, { context, indent: 1 });
  expect(answer).toMatchObject({ accepted: 1_000, rejected: 0 });
  expect(journalled()).toHaveLength(1_000);
  expect(journalled().at(-1)).toMatchObject({ ...context, campaign: texts.pairs });
});
