/** Where the clients of other services send the API key, by route. */
import type { KeyPlaces } from './key-in-body.ts';

/**
 * A member of the body, or a parameter of the path. Such routes also accept the key as the user name of Basic
 * authentication.
 */
export type ForeignKeyPlace = { readonly body: KeyPlaces } | { readonly parameter: string };

const segment: ForeignKeyPlace = { body: { names: ['writeKey'], depthInObject: 1, depthInList: 0 } };
/** Older clients send a list of captures, or one; each has the key as `properties.token`. */
const posthog: ForeignKeyPlace = { body: { names: ['api_key', 'token'], depthInObject: 2, depthInList: 3 } };

export const foreignKeys: Readonly<Record<string, ForeignKeyPlace>> = {
  '/sdk/segment/v1/batch': segment,
  '/sdk/segment/v1/{call}': segment,
  '/sdk/segment/v1/projects/{write_key}/settings': { parameter: '{write_key}' },
  '/sdk/posthog/batch/': posthog,
  '/sdk/posthog/flags/': posthog,
  '/sdk/posthog/array/{project_key}/config': { parameter: '{project_key}' },
};

/** The key in a request path (below /v1) for this route; empty if there is none. */
export function keyInPath(route: string, requested: string): string {
  const place = foreignKeys[route];
  if (place === undefined || !('parameter' in place)) return '';
  return requested.split('/')[route.split('/').indexOf(place.parameter)] ?? '';
}
