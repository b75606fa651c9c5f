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
  readonly #steps: readonly (readonly [step: Step, figures: StepFigures, name: string])[];

  constructor(pipeline: Pipeline) {
    this.columns = pipeline.flatMap(([, step]) => step.columns);
    this.#steps = pipeline.map(([name, step]) => {
      const figures = { rows: 0, microseconds: 0 };
      this.figures.set(name, figures);
      return [step, figures, name];
    });
  }

  /** What each step adds to the row of one click, by the step's name. */
  columnsOf(click: Click): ReadonlyMap<string, ByteText> {
    const added = new Map<string, ByteText>();
    for (const [step, figures, name] of this.#steps) {
      const rows: ByteText[] = [''];
      step.run([click], rows);
      figures.rows++;
      added.set(name, rows[0] ?? '');
    }
    return added;
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
