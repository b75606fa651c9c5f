/** Who calls the SDK endpoints: an app, by its API key. */
import type { AppSnapshot } from '#common/app-snapshot.ts';

export interface AppCaller {
  readonly kind: 'app';
  readonly app: AppSnapshot;
  /** The body, if it was parsed already because the key was in it. */
  readonly sharedBody: Record<string, unknown> | null;
}
