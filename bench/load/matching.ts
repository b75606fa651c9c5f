/**
 * Measures how well the matching rules do on a simulated population with known truth, with and without a tap page
 * (docs/matching.md). Needs no server.
 */
import { parseArgs } from 'node:util';
import { type Recall, simulate, type TapPage } from '#gateway/testing/match-simulation.ts';
import { STRANGERS } from '#gateway/testing/simulated-people.ts';

const percent = (part: number, whole: number) => `${((100 * part) / Math.max(1, whole)).toFixed(2)} %`;
const recall = ({ found, findable }: Recall) => ({ findable, found, recall: percent(found, findable) });

export function benchMatching(args: readonly string[]): void {
  const options = {
    installs: { type: 'string', default: '100000' },
    seed: { type: 'string', default: '1' },
    tap: { type: 'string', default: 'off,ios,mobile' },
    strangers: { type: 'string', default: String(STRANGERS) },
  } as const;
  const { values } = parseArgs({ args: [...args], options });
  const installs = Number(values.installs);
  for (const tapPage of values.tap.split(',') as TapPage[]) {
    const started = Date.now();
    const result = simulate({
      installs,
      clicks: installs * 3,
      seed: Number(values.seed),
      tapPage,
      strangers: Number(values.strangers),
    });
    console.log(`\ntap page: ${tapPage}, ${installs} installs, seed ${values.seed}, ${Date.now() - started} ms`);
    console.table(result.bands.map((band) => ({ ...band, wrong: percent(band.wrongLink, band.matches) })));
    const { all, ios, android, sameAddress, byBrowser } = result;
    console.table({
      all: recall(all),
      ios: recall(ios),
      android: recall(android),
      'same address': recall(sameAddress),
    });
    console.table(Object.fromEntries([...byBrowser].map(([name, one]) => [name, recall(one)])));
    console.log({ certain: result.certain, refused: result.refused });
  }
}
