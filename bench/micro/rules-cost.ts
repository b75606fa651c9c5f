/**
 * Measures the CPU that a redirector needs to decide about a visit and to write the line of its click, for links with
 * and without rules: `node deploy/packages/run.mjs bench/micro/rules-cost.ts [rounds]`. The kinds of links take turns in one process, which has
 * seen all of them.
 */
import { newId } from '#common/ids.ts';
import type { LinkRule } from '#common/links/link-rule.ts';
import { Devices } from '#common/redirect/device.ts';
import { LinkPlan } from '#common/redirect/plan.ts';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { VisitorCountries } from '#redirector/visitor-countries.ts';

const [rounds = 15] = process.argv.slice(2).map(Number);
const [visits, agents] = [200_000, 300];

const countries = new VisitorCountries('', (error) => {
  throw error;
});
const url = 'https://rule.example/';
/** None of these rules holds for the visitors below, who come on a Thursday, so all five are evaluated. */
const others: readonly LinkRule[] = [
  { platform: ['android'], url },
  { os_version_max: '16', url },
  { language: ['fr', 'it'], url },
  { browser: ['samsung'], url },
  { weekdays: ['sat', 'sun'], time_from: '08:00', time_until: '20:00', timezone: 'Europe/Zurich', url },
];
const kinds: Readonly<Record<string, readonly LinkRule[]>> = {
  'no rules': [],
  'five that do not hold': others,
  'four that do not hold, and one that does': [...others.slice(0, 4), { platform: ['ios'], url }],
  'four that do not hold, and two variants': [
    ...others.slice(0, 4),
    {
      variants: [
        { url, percent: 50 },
        { url: `${url}b`, percent: 50 },
      ],
    },
  ],
  'four that do not hold, and a country': [...others.slice(0, 4), { country: ['JP'], url }],
};

const app = { ...testApp, id: newId('app', 1), organization_id: newId('org', 1) };
const plans = Object.entries(kinds).map(([name, rules], n) => {
  const link = { ...testLink, id: newId('lnk', n), app_id: app.id, rules: rules.length > 0 ? rules : null };
  return { name, plan: new LinkPlan(app, link).prepare(), rounds: [] as number[] };
});
const userAgents = Array.from(
  { length: agents },
  (_, n) =>
    `Mozilla/5.0 (iPhone; CPU iPhone OS 18_${n} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.${n} Mobile/15E148 Safari/604.1`,
);
const devices = new Devices();
/** Printed at the end, so that the compiler cannot remove the work. */
let characters = 0;

function visit(plan: LinkPlan, n: number): void {
  const user_agent = userAgents[n % agents] ?? '';
  const visitor = {
    ...{ ip: `84.${n % 20}.${n % 250}.7`, user_agent, language: 'de-DE,de;q=0.9', referrer: '', query: '' },
    is_prefetch: false,
  };
  const device = devices.of(user_agent);
  const nowMs = 1_780_000_000_000 + (n >> 6);
  const decision = plan.decide(device, visitor, nowMs, countries);
  const rule = decision.kind === 'redirect' ? decision.ruleId : '';
  characters += plan.record('clk_01kzg3v5k2e4z9n7q8w6r5t4y3', visitor, device, false, nowMs, rule).length;
}

for (let round = 0; round <= rounds; round++) {
  for (const one of plans) {
    const before = process.cpuUsage();
    for (let n = 0; n < visits; n++) visit(one.plan, n);
    const { user, system } = process.cpuUsage(before);
    // The first round warms up the compilers.
    if (round > 0) one.rounds.push((user + system) / visits);
  }
}
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
for (const one of plans)
  console.log(
    `${one.name}: ${median(one.rounds).toFixed(3)} µs a visit (${Math.min(...one.rounds).toFixed(3)} to ${Math.max(...one.rounds).toFixed(3)})`,
  );
console.log(`${characters} characters`);
