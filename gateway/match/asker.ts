/** The sender of a match request. */
import type { AppSnapshot } from '#common/links/app-snapshot.ts';

export interface Asker {
  readonly app: AppSnapshot;
  readonly ip: string;
  /**
   * The device for which a click is claimed, or the install if the request names no device. Empty if it names neither.
   */
  readonly device: string;
  readonly user_agent: string;
  /** An identifier of the device's install (install-store.ts), or empty; null if the request itself is an install. */
  readonly install_name: string | null;
  /** The install that is being tracked, if the request is one. */
  readonly install_id?: string;
}
