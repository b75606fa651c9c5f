/** Who calls the SDK endpoints: an app, by its API key. */
import type { AppSnapshot } from '#common/links/app-snapshot.ts';

export interface AppCaller {
  readonly kind: 'app';
  readonly app: AppSnapshot;
  /** The API key, if it came in the body; empty where a header had it. */
  readonly keyInBody: string;
}
