/**
 * `npm run test:machines`: an installation on many machines under load, through what happens to machines. Everything that
 * was answered is counted once.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { DAY_MS } from '#common/durations.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { runFault, type Scene } from './fault-run.ts';
import { nothingWrong, seed } from './fault-sizes.ts';
import { visitorsAddress, whyNoHosts } from './hosts.ts';
import { edgeRoles, MachinesStage } from './machines-stage.ts';

const reason = whyNoHosts();
if (reason !== null) console.warn(`skipped: ${reason}`);
const patience = { timeout: 60_000, interval: 250 };
let starting: Promise<MachinesStage> | undefined;
let stage: MachinesStage;
let receiver: Receiver;
beforeAll(async () => {
  if (reason !== null) return;
  starting = MachinesStage.start();
  stage = await starting;
  receiver = await receiverForTest(visitorsAddress);
}, 600_000);
// A start that took too long goes on, and would leave 13 hosts with their processes.
afterAll(async () => {
  await (await starting?.catch(() => undefined))?.stop();
  await receiver?.stop();
}, 300_000);

/** Prints each fault once it is over. */
function printing(scene: Scene): Scene {
  const startedMs = Date.now();
  const hit = (what: string) => {
    scene.hit(what);
    console.log(`${Math.round((Date.now() - startedMs) / 1_000)} s, ${scene.clicks.sent} clicks: ${what}`);
  };
  return { ...scene, hit };
}

/** Waits until the load has received this many more redirects. */
async function redirected({ clicks }: Scene, more: number): Promise<void> {
  const wanted = (clicks.answers.get(302) ?? 0) + more;
  await vi.waitUntil(() => (clicks.answers.get(302) ?? 0) >= wanted, patience);
}

async function cutAnEdge(scene: Scene): Promise<void> {
  const edge = stage.machine('edge-1');
  edge.cutFromStores();
  await redirected(scene, 600);
  edge.heal();
  scene.hit('edge cut from all stores');
}

async function failOverPostgres(scene: Scene): Promise<void> {
  await stage.stores.failOver();
  await stage.newLink('/after-the-fail-over');
  await redirected(scene, 100);
  scene.hit('Postgres failed over');
}

async function loseLogServer(scene: Scene): Promise<void> {
  await stage.stores.killNats(1);
  await redirected(scene, 300);
  await stage.stores.startNats(1);
  scene.hit('NATS server killed');
}

async function restartAll(scene: Scene): Promise<void> {
  for (const [machine, role] of stage.processes) {
    await stage.restart(machine, role);
    await redirected(scene, 30);
    scene.hit('process restarted');
  }
}

/** Its last records are an hour old when it comes back: they were written with a clock an hour behind. */
async function loseAnEdgeForAnHour(scene: Scene, during: () => Promise<void>): Promise<void> {
  for (const role of edgeRoles) await stage.restart('edge-2', role, '-1h');
  await redirected(scene, 100);
  stage.machine('edge-2').cutFromStores();
  await redirected(scene, 400);
  await stage.loseMachine('edge-2');
  await during();
  stage.machine('edge-2').plugIn();
  stage.machine('edge-2').heal();
  for (const role of edgeRoles) await stage.start('edge-2', role);
  await redirected(scene, 100);
  scene.hit('lost edge came back');
}

async function addAnEdge(scene: Scene): Promise<void> {
  await stage.addEdge(3);
  await redirected(scene, 100);
  scene.hit('edge added');
}

async function startWithoutAClock(scene: Scene): Promise<void> {
  const clock = `-${Math.round((Date.now() - Date.UTC(2023, 2, 1)) / DAY_MS)}d`;
  for (const role of ['publisher', 'redirector'] as const) await stage.restart('edge-3', role, clock);
  await redirected(scene, 300);
  for (const role of ['publisher', 'redirector'] as const) await stage.restart('edge-3', role);
  await redirected(scene, 30);
  scene.hit('edge with the clock of 2023');
}

/** The steps of "To remove a machine permanently" in docs/operating.md. */
async function retireAnEdge(scene: Scene): Promise<void> {
  await stage.end('edge-1', 'redirector');
  await stage.end('edge-1', 'gateway');
  const uncommitted = () => stage.metric('edge-1', 'publisher', 'signpost_publisher_uncommitted_seconds');
  await expect.poll(uncommitted, patience).toBeLessThan(2);
  await stage.end('edge-1', 'publisher');
  const answer = () => stage.admin('retire-machine', 'edge-1');
  await expect.poll(answer, { ...patience, interval: 3_000 }).toMatch(/^(?!.*(ago|runs)).*retired/is);
  scene.hit('edge retired');
}

/** One message for each install, however often it was tried. */
function messagesByInstall(): Map<string, Set<string>> {
  const messages = new Map<string, Set<string>>();
  for (const { body, headers } of receiver.received) {
    const { data } = JSON.parse(body) as { data: { install_id: string } };
    messages.set(data.install_id, (messages.get(data.install_id) ?? new Set()).add(String(headers['webhook-id'])));
  }
  return messages;
}

test.skipIf(reason !== null)(
  'machines are cut off, fail over, restart, vanish for an hour, run with a wrong clock, are added and retired: everything answered is counted once',
  // A second attempt would find the machines as the first left them.
  { timeout: 900_000, retry: 0 },
  async () => {
    const webhook = { url: receiver.url, events: ['install.recorded'] };
    expect((await stage.api('/webhooks', { method: 'POST', body: webhook })).status).toBe(201);
    const load = { name: 'machines', seed, clicks: 3_000, clicksPerSecond: 100, patienceMs: 5_000, settleMs: 60_000 };
    const report = await runFault(stage, { ...load, eventSenders: 1, installSenders: 1 }, async (unprinted) => {
      const scene = printing(unprinted);
      await redirected(scene, 200);
      await cutAnEdge(scene);
      await failOverPostgres(scene);
      await loseLogServer(scene);
      await restartAll(scene);
      await loseAnEdgeForAnHour(scene, () => addAnEdge(scene));
      await startWithoutAClock(scene);
      await retireAnEdge(scene);
    });
    expect(report).toMatchObject(nothingWrong);
    // What ClickHouse would drop for its age at the next merge, it drops now.
    for (const table of ['clicks', 'events', 'installs'] as const) {
      await stage.stored.ask(`OPTIMIZE TABLE ${table} FINAL`);
      expect(await stage.stored.rowsOf(table)).toBeGreaterThanOrEqual(report[table].kept);
    }
    const endedMs = Date.now();
    await expect.poll(() => stage.asOf(), patience).toBeGreaterThan(endedMs);
    expect(JSON.parse(await stage.admin('audit', '--json'))).toMatchObject({
      ...{ lost: 0, duplicated: 0, rollup_difference: 0 },
    });
    await expect.poll(() => messagesByInstall().size, patience).toBe(await stage.stored.rowsOf('installs'));
    expect([...messagesByInstall().values()].filter(({ size }) => size !== 1)).toEqual([]);
  },
);
