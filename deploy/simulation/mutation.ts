/** A safeguard, and how its source code is changed to remove it. */
export interface Mutation {
  readonly without: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The test that fails without it, if the simulation does not reach it or needs more than 2,000 seeds. */
  readonly test?: string;
}
