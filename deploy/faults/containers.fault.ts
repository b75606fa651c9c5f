/** `npm run test:containers`: docs/containers.md, command by command, in a Docker of its own; as root on Linux. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { reasonAgainst } from '#deploy/docs-run/outside.ts';
import { ComposedStage } from './composed-stage.ts';
import { neededPrograms } from './docker-engine.ts';

const reason = reasonAgainst(neededPrograms);
if (reason !== '') console.warn(`skipped: ${reason}`);
const patience = { timeout: 60_000, interval: 250 };
const own = ['redirector', 'origin', 'publisher', 'ingest', 'webhooks'] as const;
const checkedStores = ['postgres', 'clickhouse', 'redis'] as const;
const bytesMax = 90_000_000;
let starting: Promise<ComposedStage> | undefined;
let stage: ComposedStage;
let app: { readonly id: string; readonly host: string };
let path: string;
let answered = 0;

beforeAll(async () => {
  if (reason !== '') return;
  starting = ComposedStage.start();
  stage = await starting;
}, 1_200_000);
afterAll(async () => {
  await (await starting?.catch(() => undefined))?.stop();
}, 300_000);

/** A second attempt would find what the first left. */
function inContainers(title: string, work: () => Promise<void>): void {
  test.skipIf(reason !== '')(title, { timeout: 240_000, retry: 0 }, async () => {
    await work();
    stage.say(title);
  });
}

/** Visits until this many were redirected. */
async function visit(count: number): Promise<void> {
  const wanted = answered + count;
  await expect
    .poll(async () => {
      const status = await stage.ask(app.host, path).then(
        (reply) => reply.status,
        () => 0,
      );
      if (status === 302) answered++;
      return answered;
    }, patience)
    .toBe(wanted);
}

async function expectEveryVisitCounted(): Promise<void> {
  const clicks = async () => {
    const { totals } = await stage.api<{ totals: { clicks: number; bot_clicks: number } }>(
      `/analytics/overview?app_id=${app.id}`,
    );
    return totals.clicks + totals.bot_clicks;
  };
  await expect.poll(clicks, patience).toBe(answered);
}

inContainers('the commands of the page start every process and server, and all become healthy', async () => {
  const startedMs = Date.now();
  for (const service of [...own, ...checkedStores]) await stage.becomes(service, 'healthy');
  console.log(`healthy ${Date.now() - startedMs} ms after the last command`);
  expect(await stage.inspect('migrate', '{{.State.Status}} {{.State.ExitCode}}')).toBe('exited 0');
});

inContainers('visits through Caddy are counted once, also those after the redirector died', async () => {
  app = await stage.api('/apps', { method: 'POST', body: { name: 'Contained', fallback_url: 'https://example.com/' } });
  const link = { app_id: app.id, path: '/contained' };
  path = `/${(await stage.api<{ short_code: string }>('/links', { method: 'POST', body: link })).short_code}`;
  await visit(20);
  const restarts = async () => Number(await stage.inspect('redirector', '{{.RestartCount}}'));
  const before = await restarts();
  await stage.signal('redirector', 'KILL');
  await visit(20);
  expect(await restarts()).toBe(before + 1);
  await expectEveryVisitCounted();
});

inContainers('docker inspect shows no secret, of containers and of images', async () => {
  const shown = await stage.engine.docker('inspect', ...(await stage.containers()));
  const images = await stage.engine.docker('image', 'inspect', 'localhost/signpost');
  const history = await stage.engine.docker('history', '--no-trunc', 'localhost/signpost');
  expect(shown).toContain('DATABASE_URL_FILE');
  expect(stage.secrets.map(({ length }) => length > 20)).not.toContain(false);
  expect(stage.secrets.filter((secret) => `${shown}${images}${history}`.includes(secret))).toEqual([]);
});

inContainers('neither the build nor the image has data, secrets, or history of the checkout', async () => {
  const forbidden = '\\( -name .git -o -name .data -o -path "*/compose/secrets" -o -path "*/compose/.env" \\)';
  const build = `docker build --quiet --target build --file ${stage.sources}/deploy/image/Containerfile --tag localhost/built ${stage.sources}`;
  await stage.run(build);
  for (const image of ['localhost/built', 'localhost/signpost']) {
    const found = await stage.run(
      `docker run --rm --user 0 --entrypoint sh ${image} -c 'find / -xdev -path /proc -prune -o ${forbidden} -print'`,
    );
    expect(found.trim()).toBe('');
  }
  const bindings = await stage.run("docker run --rm --entrypoint find localhost/signpost /signpost -name 'uws_*.node'");
  expect(bindings.trim().split('\n')).toHaveLength(1);
  const added = await stage.addedBytes();
  console.log(`Signpost adds ${Math.round(added / 1e6)} MB to its base`);
  expect(added).toBeLessThan(bytesMax);
});

inContainers('a process has its own user and no capability, and writes only to /data', async () => {
  for (const service of own) {
    const [pid] = await stage.processes(service);
    const status = await stage.run(`cat /proc/${pid}/status`);
    expect(status).toMatch(/^Uid:\t10001\t10001\t10001\t10001$/m);
    expect(status).toMatch(/^CapEff:\t0+$/m);
  }
  const write = 'docker-compose exec -T redirector sh -c "touch /data/x; touch /signpost/x" </dev/null || true';
  expect(await stage.run(write)).toMatch(/^touch: .*'\/signpost\/x': Read-only file system$/m);
});

inContainers('a server that hangs becomes unhealthy, and healthy once it goes on', async () => {
  for (const store of checkedStores) await stage.signal(store, 'STOP');
  await Promise.all(checkedStores.map((store) => stage.becomes(store, 'unhealthy')));
  for (const store of checkedStores) await stage.signal(store, 'CONT');
  await Promise.all(checkedStores.map((store) => stage.becomes(store, 'healthy')));
  await visit(5);
  await expectEveryVisitCounted();
});

inContainers(
  'the roles that origin joins, gateway and api, run from the image by themselves, and end on SIGTERM',
  async () => {
    for (const role of ['gateway', 'api']) {
      const name = `alone-${role}`;
      const only = `-e INSTANCE=${name} --name ${name} origin ${role}`;
      await stage.run(`docker-compose run -d --no-deps ${only} </dev/null`);
      const health = async () => await stage.engine.docker('inspect', '--format', '{{.State.Health.Status}}', name);
      await expect.poll(health, patience).toBe('healthy');
      await stage.run(`docker stop ${name}`);
      expect(await stage.engine.docker('inspect', '--format', '{{.State.ExitCode}}', name)).toBe('0');
      await stage.run(`docker rm ${name}`);
    }
  },
);

inContainers(
  'a newer image and "docker compose up" upgrade: processes end by themselves, and every visit is counted',
  async () => {
    await stage.run(
      'docker events --filter event=die --format "{{.Actor.Attributes.name}} {{.Actor.Attributes.exitCode}}" >../../events & events=$!',
    );
    await stage.run(
      "printf 'FROM localhost/signpost\\nLABEL release=newer\\n' | docker build --quiet --tag localhost/signpost -",
    );
    await stage.run('docker-compose up -d </dev/null');
    for (const service of own) {
      await stage.becomes(service, 'healthy');
      expect(await stage.inspect(service, '{{index .Config.Labels "release"}}')).toBe('newer');
    }
    const ends = await stage.run('kill $events; cat ../../events');
    for (const service of [...own, 'migrate']) expect(ends).toMatch(new RegExp(`signpost_${service}_1 0$`, 'm'));
    await visit(20);
    await expectEveryVisitCounted();
  },
);
