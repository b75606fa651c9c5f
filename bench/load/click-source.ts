/**
 * A process that is an edge without its sockets: it appends clicks to a real journal at a fixed rate. Settings come
 * from the environment, as those of a redirector do; argv: clicks per turn, people. It reads lines `<rate> <seconds>` from its
 * standard input, and answers each with one line of JSON once the last click of the round is committed to the journal.
 */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { AddressWriter } from '#common/address-writer.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { clickJson } from '#common/log/click-line.ts';
import type { Click } from '#common/log/record.ts';
import { loadConfig } from '#common/process/config.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { sleep, systemTime } from '#common/time.ts';
import { ClickLanes } from '#redirector/click-lanes.ts';
import { zipf } from './traffic.ts';

const [perTurnMax = 64, people = 50_000] = process.argv.slice(2).map(Number);
const links = 10_000;
const apps = 20;
const chromeVersions = 120;

const random = seededRandom(11);
/** Addresses are written as an edge writes them: matching by address needs the hash in them. */
const addressWriter = new AddressWriter('a key for the bench that is long enough');
const nextLink = zipf(links, random);
const organization_id = newId('org', 1);
const appIds = Array.from({ length: apps }, () => newId('app', 1));
const linkIds = Array.from({ length: links + 1 }, () => newId('lnk', 1));
const languages = ['de-DE,de;q=0.9,en;q=0.8', 'en-US,en;q=0.9', 'fr-FR,fr;q=0.9,en;q=0.8', 'pt-BR,pt;q=0.9'];
const referrers = ['', 'https://news.example/today', 'https://www.google.com/', 'https://l.instagram.com/?u=abc'];

const counters = { committed: 0, refused: 0 };
const waiter = { committed: () => void counters.committed++, refused: () => void counters.refused++ };

const config = loadConfig();
const journal = await Journal.open({
  root: join(config.DATA_DIR, 'journal'),
  slot: config.INSTANCE,
  segmentBytes: config.JOURNAL_SEGMENT_BYTES,
  bytesMax: config.JOURNAL_BYTES_MAX,
  sync: config.JOURNAL_SYNC,
});
const lanes = new ClickLanes(journal, config.LOG_PARTITIONS);

function pick<T>(from: readonly T[], n: number, otherwise: T): T {
  return from[n % from.length] ?? otherwise;
}

/** Each person has one device. Of ten devices, three are iPhones and three run Android; agents, languages and referrers repeat as they do on the web. */
function agentOf(device: number): string {
  const [kind, small] = [device % 10, device % 9];
  const chrome = `${100 + (device % chromeVersions)}.0.0.0`;
  if (kind < 3)
    return `Mozilla/5.0 (iPhone; CPU iPhone OS 17_${small} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.${small} Mobile/15E148 Safari/604.1`;
  if (kind < 6)
    return `Mozilla/5.0 (Linux; Android 14; Pixel ${small}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${chrome} Mobile Safari/537.36`;
  return `Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${chrome} Safari/537.36`;
}

function nextClick(time: number): Click {
  const link = nextLink();
  const device = Math.floor(random() * people);
  return {
    click_id: newId('clk', time),
    organization_id,
    app_id: pick(appIds, link, ''),
    link_id: linkIds[link] ?? '',
    time,
    ip: addressWriter.ofClick(
      `${20 + (device % 60)}.${device % 251}.${(device >> 4) % 251}.${device % 250}`,
      'anonymize_ip',
      time,
    ),
    privacy_mode: 'anonymize_ip',
    user_agent: agentOf(device),
    language: pick(languages, device, ''),
    referrer: pick(referrers, device, ''),
    query: link % 3 === 0 ? 'ref=mail&position=2' : '',
    campaign: `campaign-${link % 100}`,
    utm_source: 'mail',
    utm_medium: '',
    utm_campaign: 'summer',
    utm_term: '',
    utm_content: '',
    trigger: 'link',
    rule: '',
    is_prefetch: false,
    is_preview: false,
  };
}

/** Appends due clicks in turns of the event loop, at most `perTurnMax` in each, as on a busy edge. */
async function run(perSecond: number, seconds: number): Promise<void> {
  const began = performance.now();
  const total = Math.round(perSecond * seconds);
  const before = { ...counters };
  for (let appended = 0; appended < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - began) * perSecond) / 1000));
    if (due === appended) {
      await sleep(systemTime, 1);
      continue;
    }
    for (const end = Math.min(due, appended + perTurnMax); appended < end; appended++) {
      const now = Date.now();
      journal.append(lanes.at(now), clickJson(nextClick(now)), waiter);
    }
    await new Promise((done) => setImmediate(done));
  }
  const answered = () => counters.committed + counters.refused - before.committed - before.refused;
  while (answered() < total) await new Promise((done) => setImmediate(done));
  const figures = {
    producer_id: journal.producerId,
    last_frames: Array.from(
      { length: config.LOG_PARTITIONS },
      (_, partition) => journal.lane('click', partition).frame_no,
    ),
    committed: counters.committed - before.committed,
    took_ms: performance.now() - began,
  };
  process.stdout.write(`${JSON.stringify(figures)}\n`);
}

process.stdout.write(`${JSON.stringify({ ready: true })}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const [perSecond, seconds] = line.split(' ').map(Number);
  await run(perSecond ?? 0, seconds ?? 0);
}
await journal.close();
