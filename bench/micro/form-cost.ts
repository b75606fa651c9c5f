/**
 * Measures the CPU that ingest needs to form a row of a click: `node deploy/packages/run.mjs bench/micro/form-cost.ts [rounds]`. The lines come
 * from the code of the redirector.
 */
import { ClickHouse } from '#clickhouse/client.ts';
import { openCountryDatabase } from '#common/country-database.ts';
import { newId } from '#common/ids.ts';
import { encodeFrame, readFrame } from '#common/log/frame.ts';
import { Devices } from '#common/redirect/device.ts';
import { LinkPlan } from '#common/redirect/plan.ts';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { Attribution } from '#ingest/attribution/attribution.ts';
import { ClickHouseRecords } from '#ingest/attribution/clickhouse-records.ts';
import { InstallLookup } from '#ingest/attribution/install-lookup.ts';
import { BatchFormer } from '#ingest/batch-former.ts';
import { Enrichment } from '#ingest/enrichment.ts';
import type { LogFrame } from '#ingest/formed-batch.ts';
import { Visitors } from '#ingest/visitors.ts';

const [rounds = 6] = process.argv.slice(2).map(Number);
const [framesPerRound, clicksPerFrame] = [250, 40];
const [links, agents] = [1_000, 300];

const countries = openCountryDatabase('');
/** Never queried, since there are only clicks. */
const records = new ClickHouseRecords(new ClickHouse({ url: 'http://127.0.0.1:1/none' }));
const visitors = new Visitors(() => 'salt');
const enrichment = new Enrichment({ countries, visitors });
const former = new BatchFormer({
  enrichment,
  visitors,
  days: { has: () => true, prepare: () => Promise.resolve() },
  attribution: new Attribution({
    firstSeen: [],
    installs: new InstallLookup(null, records),
    clicks: { of: async () => new Map() },
    countries,
  }),
});

const began = Date.now();
const app = { ...testApp, id: newId('app', 1), organization_id: newId('org', 1) };
const plans = Array.from({ length: links }, (_, n) => {
  const link = { ...testLink, id: newId('lnk', n), app_id: app.id, campaign: n % 3 === 0 ? 'spring' : null };
  return new LinkPlan(app, link).prepare();
});
const userAgents = Array.from(
  { length: agents },
  (_, n) =>
    `Mozilla/5.0 (iPhone; CPU iPhone OS 18_${n} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.${n} Mobile/15E148 Safari/604.1`,
);
const devices = new Devices();
let [clicks, frameNo] = [0, 0];

function line(): string {
  const n = clicks++;
  const user_agent = userAgents[(n * 7) % agents] ?? '';
  const visitor = {
    ip: `84.${n % 20}.${(n * 3) % 250}.7`,
    user_agent,
    language: 'de-DE,de;q=0.9',
    referrer: n % 2 === 0 ? '' : 'https://news.example',
    query: n % 4 === 0 ? 'a=b' : '',
    is_prefetch: false,
  };
  const time = began + (n % 5);
  const plan = plans[(n * 13) % links];
  if (plan === undefined) throw new Error('the link does not exist');
  return plan.record(newId('clk', time), visitor, devices.of(user_agent), false, time);
}

function frame(): LogFrame {
  const payload = Array.from({ length: clicksPerFrame }, () => `${line()}\n`).join('');
  const bytes = Buffer.alloc(64 + 2 * payload.length);
  const header = {
    ...({ kind: 'click', partition: 0, producer_id: 'p'.repeat(26) } as const),
    ...{ frame_no: ++frameNo, records: clicksPerFrame, written_at: began },
  };
  const length = encodeFrame(bytes, 0, header, payload);
  const read = readFrame(bytes, 0);
  if (read.state !== 'frame') throw new Error(read.state);
  return { header: read.header, bytes: bytes.subarray(0, length), streamTime: 1 };
}

for (let round = 1; round <= rounds; round++) {
  const frames = Array.from({ length: framesPerRound }, frame);
  const before = process.cpuUsage();
  await former.form({ partition: 0, batch_no: round }, frames);
  const { user, system } = process.cpuUsage(before);
  const { read, parsed } = enrichment.clickLines;
  const each = (user + system) / (framesPerRound * clicksPerFrame);
  console.log(`round ${round}: ${each.toFixed(2)} µs a click; ${read} lines read, ${parsed} of them as JSON`);
}
