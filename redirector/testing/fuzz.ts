/**
 * Sends malformed requests on raw sockets, and checks the answers. Each request that may become a click has a unique
 * number, so that answers and clicks can be compared.
 */
import { connect } from 'node:net';
import { seededRandom } from '#common/seeded-random.ts';
import { type Answer, readAnswers } from './fuzz-answers.ts';
import { type Plan, planOf } from './fuzz-requests.ts';

export interface FuzzTarget {
  readonly port: number;
  readonly host: string;
  readonly code: string;
}

export interface FuzzResult {
  readonly requests: number;
  readonly connections: number;
  /** Answers by status. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Numbers of the requests that were answered with a redirect, and how often. */
  readonly redirected: ReadonlyMap<string, number>;
  /** Click ids in redirects to the store. */
  readonly clickIds: ReadonlySet<string>;
  /** Redirects with neither a number nor a click id: to a URL without the visitor's query. */
  readonly anonymous: number;
  /** Numbers of requests with HEAD, which are never clicks. */
  readonly heads: ReadonlySet<string>;
  /** Requests whose answers did not all arrive. */
  readonly unanswered: number;
  /** Invalid answers, with the bytes that caused them; only the first few. */
  readonly findings: readonly string[];
}

const atOnce = 48;
/** Maximum wait for the answers of a connection, and the silence that ends it. */
const connectionMs = 2_000;
const silenceMs = 80;
const findingsMax = 10;

/** Sends `count` requests, numbered from `first`. The same seed sends the same bytes. */
export async function fuzz(target: FuzzTarget, count: number, seed: number, first = 1): Promise<FuzzResult> {
  const random = seededRandom(seed);
  const statuses: Record<number, number> = {};
  const redirected = new Map<string, number>();
  const clickIds = new Set<string>();
  const heads = new Set<string>();
  const findings: string[] = [];
  let [requests, connections, anonymous, unanswered] = [0, 0, 0, 0];
  const note = (plan: Plan, received: string, { answers, fault }: { answers: readonly Answer[]; fault: string }) => {
    if (fault !== '' && findings.length < findingsMax) {
      const shown = (text: string) => JSON.stringify(text.slice(0, 600));
      findings.push(`${fault}\n  sent ${shown(plan.bytes.toString('latin1'))}\n  received ${shown(received)}`);
    }
    unanswered += Math.max(0, plan.numbers.length - answers.length);
    for (const { status, location } of answers) {
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status !== 302) continue;
      const url = new URL(location);
      // An app's own page is a redirect without a click.
      if (url.search === '?root=1') continue;
      const number = /(?:^\?|&)n=(\w+)/.exec(url.search)?.[1];
      const clickId = /click_id=(\w+)/.exec(url.searchParams.get('referrer') ?? '')?.[1];
      if (number !== undefined) redirected.set(number, (redirected.get(number) ?? 0) + 1);
      if (clickId !== undefined) clickIds.add(clickId);
      if (number === undefined && clickId === undefined && !plan.isHead) anonymous++;
    }
  };
  const lane = async () => {
    while (requests < count) {
      const plan = planOf(random, target, first + requests);
      requests += plan.numbers.length;
      connections++;
      if (plan.isHead) for (const number of plan.numbers) heads.add(number);
      const received = await deliver(target.port, plan);
      note(plan, received, readAnswers(received, plan.isHead));
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, lane));
  return { requests, connections, statuses, redirected, clickIds, anonymous, heads, unanswered, findings };
}

/** Sends the bytes as planned, and returns everything that arrived until the connection ended or became idle. */
function deliver(port: number, { bytes, pieces, ending, numbers }: Plan): Promise<string> {
  return new Promise((done) => {
    const received: Buffer[] = [];
    let heads = 0;
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const end = () => socket.destroy();
    let silence = setTimeout(end, silenceMs * 4);
    const limit = setTimeout(end, connectionMs);
    socket.on('data', (chunk) => {
      received.push(chunk);
      heads += chunk.toString('latin1').split('HTTP/1.1 ').length - 1;
      clearTimeout(silence);
      // The last answer may be followed by an unrequested one, which would be a fault.
      silence = setTimeout(end, heads >= numbers.length ? 4 : silenceMs);
    });
    socket.on('error', () => undefined);
    socket.once('close', () => {
      clearTimeout(silence);
      clearTimeout(limit);
      done(Buffer.concat(received).toString('latin1'));
    });
    socket.once('connect', () => {
      const send = (at: number): void => {
        if (socket.destroyed) return;
        if (at < pieces.length - 1) {
          socket.write(bytes.subarray(pieces[at], pieces[at + 1]), () => setImmediate(() => send(at + 1)));
        } else if (ending === 'cut') socket.resetAndDestroy();
        else if (ending === 'half closed') socket.end();
      };
      send(0);
    });
  });
}

export interface SeenClick {
  readonly click_id: string;
  readonly query: string;
}

/**
 * Compares the recorded clicks with the answers. Empty if each redirect is one click and there are no other clicks.
 * @param areAll false if other requests made clicks too.
 */
export function differences(result: FuzzResult, clicks: readonly SeenClick[], areAll = true): string[] {
  const found: string[] = [];
  const byNumber = new Map<string, number>();
  const ids = new Set<string>();
  let unnumbered = 0;
  for (const { click_id, query } of clicks) {
    if (ids.has(click_id)) found.push(`click ${click_id} is stored twice`);
    ids.add(click_id);
    const number = /(?:^|&)n=(\w+)/.exec(query)?.[1];
    if (number === undefined) unnumbered++;
    else byNumber.set(number, (byNumber.get(number) ?? 0) + 1);
  }
  for (const [number, times] of result.redirected) {
    if (!result.heads.has(number) && byNumber.get(number) !== times) {
      found.push(`request ${number}: ${times} redirects, ${byNumber.get(number) ?? 0} clicks`);
    }
  }
  for (const id of result.clickIds)
    if (!ids.has(id)) found.push(`click ${id} was promised to a store and is not stored`);
  for (const number of result.heads) if (byNumber.has(number)) found.push(`HEAD ${number} is a click`);
  for (const [number, times] of byNumber) if (times > 1) found.push(`request ${number} is ${times} clicks`);
  if (areAll && unnumbered < result.anonymous)
    found.push(`${result.anonymous} other redirects, ${unnumbered} other clicks`);
  return found.slice(0, 20);
}
