/** The body of a message, identical at each attempt. */
import { toJson } from '#common/exact-json.ts';
import { type LinkRow, linkAnswer, linkSchema } from '#common/links/link.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { PAYLOAD_VERSION } from '#common/webhooks/webhook-events.ts';
import type { ReadClicks } from './stored-clicks.ts';

export interface MessageContent {
  readonly type: string;
  readonly organization_id: string;
  readonly occurred_at: Date;
  readonly data: Readonly<Record<string, unknown>>;
  /** The apps of the endpoint; null: all. */
  readonly app_ids: readonly string[] | null;
}

/**
 * Whether the endpoint was limited to fewer apps after the click batch was created, so that all of its clicks may be of
 * other apps.
 */
export function isNarrowedBatch({ type, data, app_ids }: Pick<MessageContent, 'type' | 'data' | 'app_ids'>): boolean {
  if (type !== 'click.batch' || app_ids === null) return false;
  const counted = (data['app_ids'] ?? null) as readonly string[] | null;
  return counted === null || !counted.every((id) => app_ids.includes(id));
}

/** @returns null if the reported record is no longer stored, or if no click is of an app of the endpoint. @throws ClickHouseFailure */
export async function payloadOf(
  message: MessageContent,
  shortUrl: ShortUrl,
  readClicks: ReadClicks,
): Promise<string | null> {
  const { type, organization_id, occurred_at } = message;
  const data = await dataOf(message, shortUrl, readClicks);
  if (data === null) return null;
  return toJson({
    type,
    version: PAYLOAD_VERSION,
    timestamp: occurred_at.toISOString(),
    organization_id,
    data,
  });
}

async function dataOf(
  { type, organization_id, data, app_ids }: MessageContent,
  shortUrl: ShortUrl,
  readClicks: ReadClicks,
): Promise<object | null> {
  if (type.startsWith('link.')) return linkData(data, shortUrl);
  if (type !== 'click.batch') return data;
  const clicks = await readClicks(organization_id, data, app_ids);
  return clicks.length === 0 ? null : { clicks };
}

/** A link as the API returns it, from the row that a trigger recorded. */
function linkData(row: Readonly<Record<string, unknown>>, shortUrl: ShortUrl): object {
  const time = (name: string) => new Date(String(row[name]));
  const answer = linkAnswer(
    {
      ...(row as unknown as LinkRow),
      expires_at: row['expires_at'] === null ? null : time('expires_at'),
      created_at: time('created_at'),
      updated_at: time('updated_at'),
    },
    shortUrl,
  );
  const documented = Object.keys(linkSchema.properties);
  return Object.fromEntries(Object.entries(answer).filter(([name]) => documented.includes(name)));
}
