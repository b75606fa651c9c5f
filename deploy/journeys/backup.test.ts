/**
 * The day after: a backup under load, and everything restored from it. `deploy/faults/backup.fault.ts` adds a replay.
 *
 * @module-tag slow
 */
import { execFile } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nothingWrong } from '#deploy/faults/fault-sizes.ts';
import { MachineStage } from '#deploy/faults/machine-stage.ts';

const patience = { timeout: 45_000, interval: 250 };
const long = { timeout: 150_000 };
const firefox = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';

let stage: MachineStage;
beforeAll(async () => {
  stage = await MachineStage.start();
});
afterAll(() => stage.stop());

test('a backup under load is whole, readable by its owner only, and leaves nothing behind', long, async () => {
  await stage.backUpUnderLoad();
  const { backup, stack } = stage;
  expect(statSync(backup).mode & 0o777).toBe(0o700);
  expect(existsSync(join(stack.dataDir, 'clickhouse', 'store', 'shadow', 'backup'))).toBe(false);
  await promisify(execFile)('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: backup });
  await expect(stage.admin('backup', backup)).rejects.toThrow(/already exists/);
  await expect(stage.admin('restore', backup)).rejects.toThrow(/is in use by process/);
});

test(
  'while the installation runs, a trial restore proves that the backup is of use, and leaves nothing behind',
  long,
  async () => {
    const { backup } = stage;
    expect(await stage.admin('try-restore', backup)).toMatch(
      /can be restored: .*\n.* \d{3,} records, lost 0, duplicated 0/,
    );
    const file = join(backup, 'clickhouse', 'password-signpost');
    const whole = readFileSync(file);
    appendFileSync(file, ' ');
    await expect(stage.admin('try-restore', backup)).rejects.toThrow(/password-signpost has changed/);
    writeFileSync(file, whole);
    expect(existsSync(`${backup}.trial`)).toBe(false);
  },
);

test(
  'after the loss of everything, a restore brings back what was answered before the backup, once',
  long,
  async () => {
    const { backup, stack } = stage;
    await stack.interrupt();
    await expect(stage.admin('restore', backup)).rejects.toThrow(/already exists/);
    stage.wipe();
    const file = join(backup, 'postgres', 'cluster', 'PG_VERSION');
    const whole = readFileSync(file);
    appendFileSync(file, ' ');
    await expect(stage.admin('restore', backup)).rejects.toThrow(/PG_VERSION has changed/);
    writeFileSync(file, whole);
    expect(await stage.admin('restore', backup)).not.toContain('replay');
    await stack.launch();
    await expect.poll(() => stage.figures(stage.before), patience).toEqual(nothingWrong);
    expect(await stage.admin('audit')).toContain('lost 0, duplicated 0, rollup difference 0');
  },
);

test('the restored installation is whole, counts new clicks, and sends nothing until it is resumed', long, async () => {
  const { stack, app, link } = stage;
  const call = await stack.loggedIn();
  const held = async () => (await call('/me')).json<{ outbound_held_since: string | null }>().outbound_held_since;
  expect(await held()).not.toBeNull();
  expect(JSON.parse(await stage.admin('resume-outbound', '--json'))).toMatchObject({ kind: 'resumed' });
  expect(await held()).toBeNull();
  const stats = async () =>
    (await call(`/links/${link.id}/stats`)).json<{ totals: { clicks: number } }>().totals.clicks;
  const clicks = await stats();
  const headers = { host: app.host, 'user-agent': firefox };
  expect((await stack.redirector(`/${link.short_code}`, { headers })).status).toBe(302);
  await expect.poll(stats, patience).toBe(clicks + 1);
  const event = { events: [{ event_id: 'after', name: 'purchase', device_id: 'dev' }] };
  const sent = await stack.api('/sdk/events', { method: 'POST', headers: { 'x-api-key': app.api_key }, body: event });
  expect(sent.status).toBe(202);
});
