/** Sends a campaign of requests and judges every answer; the seed determines the requests, so a run can be repeated. */
import fc from 'fast-check';
import { residentMib } from '#deploy/journeys/memory.ts';
import type { Stack } from '#deploy/journeys/stack.ts';
import { Description, type Operation } from './description.ts';
import { type Plan, plansOf } from './plans.ts';
import { faultsOf } from './verdict.ts';
import { type Received, type Sent, Wire } from './wire.ts';
import { foreignMark, World } from './world.ts';

const LANES = 8;
const FINDINGS_MAX = 25;

export interface CampaignResult {
  readonly sent: number;
  readonly seconds: number;
  /** Requests by status of the answer. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Successes by operation: an operation that never succeeded was not really tested. */
  readonly succeeded: Readonly<Record<string, number>>;
  /**
   * Operations that cannot succeed here. A login through a provider needs a configured one, and a second factor needs a
   * password and a code.
   */
  readonly untried: readonly string[];
  /** The same fault of the same operation once, with the first request that showed it. */
  readonly findings: readonly string[];
  /** Resident memory in MiB, after a fifth of the requests and at the end. */
  readonly memoryMib: readonly [early: number, late: number];
  readonly isSameChild: boolean;
}

export async function fuzz(stack: Stack, requests: number, seed: number): Promise<CampaignResult> {
  const description = new Description((await stack.api('/openapi.json')).json());
  const world = await World.build(stack);
  const plans = fc.sample(plansOf(description.operations.filter(hasEnd)), { numRuns: requests, seed });
  const wire = new Wire(stack.apiPort, LANES);
  const pid = stack.pidOf('origin');
  const startedMs = Date.now();
  const tally = new Tally(description, world);
  let next = 0;
  let early = 0;
  const lane = async () => {
    for (let plan = plans[next++]; plan; plan = plans[next++]) {
      const sent = sentOf(plan, world);
      tally.add(plan, sent, await wire.send(sent));
      if (early === 0 && next > requests / 5) early = residentMib(pid);
    }
  };
  try {
    await Promise.all(Array.from({ length: LANES }, lane));
    await stack.api('/openapi.json');
  } finally {
    wire.close();
  }
  return {
    sent: requests,
    seconds: (Date.now() - startedMs) / 1000,
    statuses: tally.statuses,
    succeeded: tally.succeeded,
    untried: description.operations
      .filter(hasEnd)
      .map(({ method, path }) => `${method} ${path}`)
      .filter((name) => !(name in tally.succeeded) && !/\/oauth\/|\/totp/.test(name)),
    findings: [...tally.findings.values()].slice(0, FINDINGS_MAX),
    memoryMib: [early, residentMib(pid)],
    isSameChild: stack.pidOf('origin') === pid,
  };
}

/** A stream of events has none, so its answer cannot be judged. */
function hasEnd({ answers }: Operation): boolean {
  return answers.get(200)?.has('text/event-stream') !== true;
}

class Tally {
  readonly statuses: Record<number, number> = {};
  readonly succeeded: Record<string, number> = {};
  readonly findings = new Map<string, string>();
  readonly #description: Description;
  readonly #world: World;

  constructor(description: Description, world: World) {
    this.#description = description;
    this.#world = world;
  }

  add(plan: Plan, sent: Sent, received: Received | string): void {
    const { operation, method } = plan;
    const name = operation ? `${method} ${operation.path}` : 'nothing';
    if (typeof received === 'string') {
      this.#find(name, `no answer: ${received}`, sent);
      return;
    }
    const { status, body } = received;
    this.statuses[status] = (this.statuses[status] ?? 0) + 1;
    for (const fault of faultsOf(this.#description, operation, method, received)) this.#find(name, fault, sent);
    const text = body.toString('utf8');
    const asked = `${sent.target}${sent.body ? Buffer.from(sent.body).toString('utf8') : ''}`;
    if (plan.credential !== 'foreign' && text.includes(foreignMark) && !asked.includes(foreignMark)) {
      this.#find(name, `text of another organization: ${text.slice(0, 300)}`, sent);
    }
    if (!operation || status >= 300) return;
    this.succeeded[name] = (this.succeeded[name] ?? 0) + 1;
    if (plan.credential === 'foreign') return;
    this.#world.learn(operation.path, status, text);
    if (operation.path === '/apps/{id}/rotate-key') {
      const { id, api_key } = JSON.parse(text) as { id: string; api_key: string };
      if (id === this.#world.keyApp) this.#world.rotated(api_key);
    }
  }

  #find(name: string, fault: string, { method, target, headers, body }: Sent): void {
    const key = `${name} ${fault.replaceAll(/[0-9a-z]{20,}|\d+/g, '#').slice(0, 120)}`;
    if (this.findings.has(key)) return;
    const shown = { ...headers, ...(headers['authorization'] ? { authorization: '…' } : {}) };
    const text = body === null ? '' : Buffer.from(body).toString('utf8').slice(0, 600);
    this.findings.set(key, `${fault}\n    ${method} ${target.slice(0, 300)} ${JSON.stringify(shown)} ${text}`);
  }
}

function sentOf(plan: Plan, world: World): Sent {
  const { body } = plan;
  let target = `/v1${world.fill(plan.target)}`;
  // The app behind the keys is never deleted: without it, no SDK endpoint could be tested any more.
  if (plan.method === 'DELETE') target = target.replace(world.keyApp, world.fill('{{app:1}}'));
  return {
    method: plan.method,
    target,
    headers: { ...plan.headers, ...world.headers(plan.credential) },
    body: body === null ? null : typeof body === 'string' ? Buffer.from(world.fill(body)) : body,
  };
}
