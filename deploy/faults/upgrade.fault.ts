/** An upgrade from the first release, with its data, its journals and its log. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { skipWithout } from '#testing/skip.ts';
import { nothingWrong } from './fault-sizes.ts';
import { MachineStage } from './machine-stage.ts';

/** The last commit of 0.1.0 before batches were numbered. It has the packages of this version, and a few less. */
const firstRelease = '131d33da40aa0ea9167f47681f1583f974e8f36c';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-release-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function isInHistory(): boolean {
  try {
    execFileSync('git', ['cat-file', '-e', `${firstRelease}^{commit}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Its sources next to this version's packages, which it finds as its own. */
function unpackFirstRelease(): void {
  const archive = execFileSync('git', ['archive', firstRelease], { maxBuffer: 256 * 1024 * 1024 });
  execFileSync('tar', ['-x', '-C', folder], { input: archive });
  const [own, nats] = [
    join(packageRoot(), 'node_modules'),
    join(packageRoot(), 'deploy/packages/nats-server/node_modules'),
  ];
  mkdirSync(join(folder, 'node_modules'));
  for (const packages of [own, nats]) {
    for (const name of readdirSync(packages).filter((one) => one !== '.package-lock.json')) {
      symlinkSync(join(packages, name), join(folder, 'node_modules', name));
    }
  }
}

test('everything that the first release recorded is there after the upgrade, once, and the rest goes on', async (context) => {
  skipWithout(isInHistory(), 'the commit of the first release (a whole clone)', context);
  unpackFirstRelease();
  const stage = await MachineStage.start(folder);
  try {
    await stage.underLoad(async () => undefined);
    await stage.stack.interrupt();
    await stage.stack.launch();
    await expect.poll(() => stage.figures(stage.all), { timeout: 60_000, interval: 250 }).toEqual(nothingWrong);
    await stage.underLoad(async () => undefined);
    await expect.poll(() => stage.figures(stage.all), { timeout: 60_000, interval: 250 }).toEqual(nothingWrong);
    expect(await stage.admin('audit')).toContain('lost 0, duplicated 0, rollup difference 0');
    const call = await stage.stack.loggedIn();
    expect((await call(`/links/${stage.link.id}`)).json<{ id: string }>().id).toBe(stage.link.id);
  } finally {
    await stage.stop();
  }
});
