/** Who asks for a match. */
import type { AppSnapshot } from '#common/links/app-snapshot.ts';

export interface Asker {
  readonly app: AppSnapshot;
  readonly ip: string;
  /** The device that a click is claimed for, or the install if the request names no device. Empty if it names neither. */
  readonly device: string;
  readonly user_agent: string;
  /** A name that the device's install goes by (install-store.ts), or empty; null for an install that asks for itself. */
  readonly install_name: string | null;
  /** The install that asks, if it is one. */
  readonly install_id?: string;
}
