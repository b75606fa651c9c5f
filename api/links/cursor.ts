/** The cursor of a newest-first list: the position of a link, as text that clients send back. */
import { invalid, type Rejection } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import type { LinkPosition } from './selection.ts';

const TIME_MS_MAX = 8.64e15;

export function cursorOf({ created_at, id }: LinkPosition): string {
  return Buffer.from(`${created_at.getTime()}.${id}`).toString('base64url');
}

export function readCursor(text: string): LinkPosition | Rejection {
  const [, ms = '', id = ''] = /^(\d{1,16})\.(\w+)$/.exec(Buffer.from(text, 'base64url').toString('latin1')) ?? [];
  if (!isId('lnk', id) || Number(ms) > TIME_MS_MAX) return invalid('cursor', 'is not a cursor returned by this list');
  return { created_at: new Date(Number(ms)), id };
}
