/**
 * Every name that an installation uses in NATS, in one place, so that permissions can be derived from it. Several
 * installations can share a server, each under its own name. The default one has the names from before installations
 * had any.
 */
import type { Lane } from './frame.ts';

export const defaultInstallation = 'signpost';
/** Safe in a subject and in the name of a stream. */
export const installationShape = /^[a-z0-9][a-z0-9-]{0,31}$/;

export class LogNames {
  readonly installation: string;
  readonly stream: string;
  /** All subjects of the stream. */
  readonly records: string;
  readonly marks: string;
  readonly marksRequest: string;
  /**
   * Publishers report twice a second up to which time their journals are committed: {machine, committed_to, sent_at},
   * both by the machine's clock.
   */
  readonly progress: string;
  /** Where gateways send ingest requests for clicks that Redis has lost. */
  readonly archive: string;
  readonly #prefix: string;

  constructor(installation: string) {
    const isDefault = installation === defaultInstallation;
    this.installation = installation;
    this.#prefix = isDefault ? '' : `${installation}.`;
    this.stream = isDefault ? 'log' : `log-${installation}`;
    this.records = `${this.#prefix}log.>`;
    this.marks = `${this.#prefix}ingest.marks`;
    this.marksRequest = `${this.#prefix}ingest.marks.get`;
    this.progress = `${this.#prefix}journal.progress`;
    this.archive = `${this.#prefix}attribution.click`;
  }

  /** The subject of a lane's messages. */
  subjectOf(lane: Lane): string {
    return `${this.#prefix}log.${lane.kind}.${lane.partition}`;
  }

  /** The subjects of a partition: of all kinds, or of one. */
  subjectsOf(partition: number, kind: Lane['kind'] | '*' = '*'): string {
    return `${this.#prefix}log.${kind}.${partition}`;
  }

  /** The subject of JetStream's own API for an action on the stream. */
  api(action: string, ...rest: readonly string[]): string {
    return ['$JS.API', action, this.stream, ...rest].join('.');
  }
}

export const defaultNames = new LogNames(defaultInstallation);
