/** Upgrades from the first release, with its data, its journals and its log. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { skipWithout } from '#testing/skip.ts';
import { nothingWrong } from './fault-sizes.ts';
import { MachineStage } from './machine-stage.ts';
import { isInHistory, unpackRelease } from './unpacked-release.ts';

/** The last commit of 0.1.0 before batches were numbered. It has the packages of this version, and a few less. */
const firstRelease = '131d33da40aa0ea9167f47681f1583f974e8f36c';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-release-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('after the upgrade, everything that the first release recorded is stored once, and recording continues', async (context) => {
  skipWithout(isInHistory(firstRelease), 'the commit of the first release (a whole clone)', context);
  unpackRelease(firstRelease, folder);
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
