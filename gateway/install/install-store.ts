/** Installs in Postgres: under any concurrency and across restarts, the first answer is final. */
import { type Queries, violatedConstraint } from '#common/stores/postgres.ts';

/** The answer to an install, except what follows from its link. */
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
  /** The line for the log, until the journal is known to have it. */
  readonly record: string | null;
  /** The device had another install of the app before, as far back as installs are stored. */
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

/** The name by which an install is identified, and a second one by which it can be found. */
export interface InstallNames {
  readonly first: string;
  readonly second: string;
}

export class InstallStore {
  readonly #db: Queries;

  constructor(db: Queries) {
    this.#db = db;
  }

  /** The install under this name, if there is one. */
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

  /** The new install, or the one that was there first; 'click_taken' if another install has the click. */
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

  /** Whether there is an install under this name. */
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
 * The name of the install that a device refers to: the install's own id, or else the device's; empty if it sends
 * neither.
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
