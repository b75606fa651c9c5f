/** The caller of the SDK endpoints: an app, identified by its API key. */
import type { AppSnapshot } from '#common/links/app-snapshot.ts';

export interface AppCaller {
  readonly kind: 'app';
  readonly app: AppSnapshot;
  /** The API key, if it was sent in the body; empty if a header had it. */
  readonly keyInBody: string;
}
