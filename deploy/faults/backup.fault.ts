/** Restores the databases while journals and log survive: the replay stores again what is newer than the backup. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nothingWrong, times } from './fault-sizes.ts';
import { MachineStage } from './machine-stage.ts';

let stage: MachineStage;
beforeAll(async () => {
  stage = await MachineStage.start();
});
afterAll(() => stage.stop());

test('if journals and log survive, a restore and a replay bring back every record exactly once', async () => {
  for (let round = times(3); round > 0; round--) {
    await stage.backUpUnderLoad();
    await stage.stack.interrupt();
    stage.wipe(['journal', 'nats']);
    const [, from = ''] = /replay --from (\S+)/.exec(await stage.admin('restore', stage.backup)) ?? [];
    await stage.stack.launch();
    await stage.admin('replay', '--from', from);
    await expect.poll(() => stage.figures(stage.all), { timeout: 60_000, interval: 250 }).toEqual(nothingWrong);
    expect(await stage.admin('audit')).toContain('lost 0, duplicated 0, rollup difference 0');
  }
});
