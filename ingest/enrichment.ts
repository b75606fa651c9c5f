/**
 * Adds columns to a click between its record and its row, step by step. A step never rejects a record: invalid records
 * do not get here (`record-decoder.ts`), and data of erased visitors is already removed (`erasures.ts`).
 *
 * `plain-clicks.ts` takes the same columns from these steps, one piece of a line at a time, and caches them by the
 * bytes of the piece. Installs and events are enriched by lookups instead: `attribution/attribution.ts`. A match is
 * complete: `match-rows.ts`.
 */
import type { ByteText } from '#clickhouse/row-binary.ts';
import type { CountryDatabase } from '#common/country-database.ts';
import type { Click } from '#common/log/record.ts';
import { anonymizeAddress } from './steps/anonymize-address.ts';
import { copyLinkFields } from './steps/copy-link-fields.ts';
import { detectDevice } from './steps/detect-device.ts';
import { numberVisitor } from './steps/number-visitor.ts';
import { readHeaders } from './steps/read-headers.ts';
import type { Step } from './steps/step.ts';
import type { Visitors } from './visitors.ts';

function stepsInOrder({ countries, visitors }: EnrichmentOptions) {
  return [
    copyLinkFields(), // link_id, organization_id, app_id, campaign, utm_*
    detectDevice(), // user_agent, platform, os, os_version, browser, device_model, is_bot, bot_reason
    readHeaders(), // language, referrer_host
    anonymizeAddress(countries), // ip, country, region, city
    numberVisitor(visitors), // visitor
  ] as const;
}

export type StepName = ReturnType<typeof stepsInOrder>[number]['name'];

export interface EnrichmentOptions {
  readonly countries: CountryDatabase;
  readonly visitors: Visitors;
}

export interface StepFigures {
  rows: number;
  microseconds: number;
}

export class Enrichment {
  readonly steps: readonly Step<StepName>[];
  /** The columns that the steps add, in order. */
  readonly columns: readonly string[];
  /** Since the start of the process, by step. */
  readonly figures: ReadonlyMap<StepName, StepFigures>;
  /**
   * Click lines since the start of the process; `parsed` as JSON, because a piece was new or the line was not plain.
   */
  readonly clickLines = { read: 0, parsed: 0 };
  readonly #timed: readonly (readonly [step: Step<StepName>, figures: StepFigures])[];

  constructor(options: EnrichmentOptions) {
    this.steps = stepsInOrder(options);
    this.columns = this.steps.flatMap((step) => step.columns);
    this.#timed = this.steps.map((step) => [step, { rows: 0, microseconds: 0 }]);
    this.figures = new Map(this.#timed.map(([step, figures]) => [step.name, figures]));
  }

  /** The columns that one step adds to the row of a click. */
  columnsOf(name: StepName, click: Click): ByteText {
    const found = this.#timed.find(([step]) => step.name === name);
    if (found === undefined) throw new Error(`There is no enrichment step "${name}".`);
    const [step, figures] = found;
    const started = performance.now();
    const columns = step.columnsOf(click);
    figures.rows++;
    figures.microseconds += (performance.now() - started) * 1000;
    return columns;
  }

  /** Appends the columns of each click to the row at the same index. */
  run(clicks: readonly Click[], rows: ByteText[]): void {
    let started = performance.now();
    for (const [step, figures] of this.#timed) {
      for (const [at, click] of clicks.entries()) rows[at] += step.columnsOf(click);
      const ended = performance.now();
      figures.rows += clicks.length;
      figures.microseconds += (ended - started) * 1000;
      started = ended;
    }
  }
}
