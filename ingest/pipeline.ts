/**
 * Enrichment: a list of [name, step], each over a whole batch, each timed and counted. A step fills in columns of the rows
 * and never refuses one.
 */
import type { ClickRow } from '#clickhouse/rows.ts';
import type { Click } from '#common/log/record.ts';

/** A click on its way: as the edge saw it, and the row that it becomes. */
export interface EnrichedClick {
  readonly click: Click;
  readonly row: ClickRow;
}

export type Step = (clicks: readonly EnrichedClick[]) => void;
export type Pipeline = readonly (readonly [name: string, step: Step])[];

export interface StepFigures {
  rows: number;
  microseconds: number;
}

export class PipelineRun {
  readonly #pipeline: Pipeline;
  /** Since the start of the process, by step. */
  readonly figures = new Map<string, StepFigures>();

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline;
    for (const [name] of pipeline) this.figures.set(name, { rows: 0, microseconds: 0 });
  }

  run(clicks: readonly EnrichedClick[]): void {
    for (const [name, step] of this.#pipeline) {
      const started = performance.now();
      step(clicks);
      const figures = this.figures.get(name);
      if (figures === undefined) continue;
      figures.rows += clicks.length;
      figures.microseconds += (performance.now() - started) * 1000;
    }
  }
}
