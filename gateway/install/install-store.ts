/** Stores installs in Postgres. Under any concurrency and across restarts, the first answer is final. */
import { type Queries, violatedConstraint } from '#common/stores/postgres.ts';

/** The answer to an install, except for fields that are read from its link. */
export interface InstallAnswer {
  readonly attributed: boolean;
  readonly match_type: string;
  readonly match_guaranteed: boolean;
  readonly confidence: number;
  readonly click_id: string | null;
  readonly link: object | null;
  readonly campaign: string | null;
  /** ISO 8601. */
  readonly created_at: string;
}

export interface KeptInstall {
  readonly is_new: boolean;
  readonly install_id: string;
  readonly answer: InstallAnswer;
  /** The line for the log; null once the journal is known to have it. */
  readonly record: string | null;
  /** Whether the device had another install of the app before, within the retention of installs. */
  readonly is_reinstall: boolean;
}

export interface NewInstall {
  readonly app_id: string;
  readonly install_id: string;
  readonly names: InstallNames;
  readonly answer: InstallAnswer;
  readonly record: string;
  readonly time: number;
}

/** The identifier of an install, and a second one by which it can be found. */
export interface InstallNames {
  readonly first: string;
  readonly second: string;
}

export class InstallStore {
  readonly #db: Queries;

  constructor(db: Queries) {
    this.#db = db;
  }

  /** The install with this identifier, if there is one. */
  async find(appId: string, name: string): Promise<KeptInstall | null> {
    const [row] = await this.#db.query<KeptInstall>(
      `SELECT false AS is_new, a.install_id, a.answer, a.record, a.is_reinstall
         FROM install_names n JOIN install_answers a ON a.app_id = n.app_id AND a.install_id = n.install_id
        WHERE n.app_id = $1 AND n.name = $2`,
      [appId, name],
      'find_install',
    );
    return row ?? null;
  }

  /**
   * Stores the install.
   * @returns it, or the one that was stored first; 'click_taken' if another install has the click.
   */
  async keep(install: NewInstall): Promise<KeptInstall | 'click_taken'> {
    const { app_id, install_id, names, answer, record, time } = install;
    try {
      const [row] = await this.#db.query<KeptInstall>(
        'SELECT is_new, install_id, answer, record, is_reinstall FROM signpost_keep_install($1, $2, $3, $4, $5, $6, $7, $8)',
        [
          app_id,
          names.first,
          names.second,
          install_id,
          answer.click_id,
          JSON.stringify(answer),
          record,
          new Date(time),
        ],
        'keep_install',
      );
      if (!row) throw new Error('signpost_keep_install returned no row');
      return row;
    } catch (error) {
      if (violatedConstraint(error) === 'install_answers_click_id_key') return 'click_taken';
      throw error;
    }
  }

  /** Whether there is an install with this identifier. */
  async has(appId: string, name: string): Promise<boolean> {
    const rows = await this.#db.query(
      'SELECT 1 AS found FROM install_names WHERE app_id = $1 AND name = $2',
      [appId, name],
      'has_install',
    );
    return rows.length > 0;
  }

  /** Notes that the journal has the record. */
  async recorded(appId: string, installId: string): Promise<void> {
    await this.#db.execute(
      'UPDATE install_answers SET record = NULL WHERE app_id = $1 AND install_id = $2',
      [appId, installId],
      'install_recorded',
    );
  }
}

/**
 * The identifier of the install that a device refers to: the install's own id, otherwise the device's; empty if it
 * sends neither.
 */
export function installNameOf({
  install_id,
  device_id,
}: {
  install_id?: string | null;
  device_id?: string | null;
}): string {
  if (install_id) return `i:${install_id}`;
  return device_id ? `d:${device_id}` : '';
}
