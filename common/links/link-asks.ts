/**
 * A redirector's request to learn a code that its host does not have yet: the API asks the app's old service
 * (api/migration), creates the link if there is one, and announces that it has asked (link-changes.ts).
 */

export const askChannel = 'links:asks';

/**
 * The user agent of requests to the old service. If such a request comes back to a redirector, it never triggers
 * another lookup.
 */
export const askingAgent =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Signpost-Migration/1';

export interface LinkAsk {
  readonly organization_id: string;
  readonly app_id: string;
  readonly host: string;
  /** As stored in the app. */
  readonly code: string;
}

export function encodeAsk({ organization_id, app_id, host, code }: LinkAsk): string {
  return JSON.stringify([organization_id, app_id, host, code]);
}

/** Undefined if the text was not written by `encodeAsk`. */
export function decodeAsk(text: string): LinkAsk | undefined {
  let parts: unknown;
  try {
    parts = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parts) || parts.length < 4 || parts.slice(0, 4).some((part) => typeof part !== 'string'))
    return undefined;
  const [organization_id, app_id, host, code] = parts;
  return { organization_id, app_id, host, code };
}
