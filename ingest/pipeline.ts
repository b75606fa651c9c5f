/**
 * Enrichment: a list of [name, step], each over the clicks of a frame, each timed and counted. A step adds columns to the
 * rows and never refuses one. Most of what it adds it has made before, so a step keeps encoded columns and not values.
 */
import type { ByteText } from '#clickhouse/row-binary.ts';
import type { Click } from '#common/log/record.ts';

export interface Step {
  readonly columns: readonly string[];
  /** Adds the columns of each click to the row at the same place. */
  readonly run: (clicks: readonly Click[], rows: ByteText[]) => void;
}
export type Pipeline = readonly (readonly [name: string, step: Step])[];

export interface StepFigures {
  rows: number;
  microseconds: number;
}

export class PipelineRun {
  /** What the steps add, in their order. */
  readonly columns: readonly string[];
  /** Since the start of the process, by step. */
  readonly figures = new Map<string, StepFigures>();
  /** Lines of clicks since the start of the process; `parsed` as JSON, because a piece was new or the line was not plain. */
  readonly clickLines = { read: 0, parsed: 0 };
  readonly #steps: readonly (readonly [step: Step, figures: StepFigures, name: string])[];

  constructor(pipeline: Pipeline) {
    this.columns = pipeline.flatMap(([, step]) => step.columns);
    this.#steps = pipeline.map(([name, step]) => {
      const figures = { rows: 0, microseconds: 0 };
      this.figures.set(name, figures);
      return [step, figures, name];
    });
  }

  /** What one step adds to the row of a click. */
  columnsOf(name: string, click: Click): ByteText {
    const found = this.#steps.find(([, , own]) => own === name);
    if (found === undefined) throw new Error(`There is no step ${name}.`);
    const [step, figures] = found;
    const rows: ByteText[] = [''];
    const started = performance.now();
    step.run([click], rows);
    figures.rows++;
    figures.microseconds += (performance.now() - started) * 1000;
    return rows[0] ?? '';
  }

  run(clicks: readonly Click[], rows: ByteText[]): void {
    let started = performance.now();
    for (const [step, figures] of this.#steps) {
      step.run(clicks, rows);
      const ended = performance.now();
      figures.rows += clicks.length;
      figures.microseconds += (ended - started) * 1000;
      started = ended;
    }
  }
}
