/**
 * Decodes the body formats that PostHog's clients send in addition to JSON: gzip without a Content-Encoding header
 * (`compression=gzip-js`), and a form whose field `data` is JSON, in base64 if `compression=base64` (sendBeacon). They
 * are recognized by their content, because clients declare them inconsistently.
 */
import { unpackBody } from '#common/http/incoming.ts';
import { parseObjectOrList } from '#common/http/json.ts';
import { RawBody } from '#common/http/raw-body.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { isObject } from '#common/json-object.ts';
import type { Fields, SentItems } from './fields.ts';

const gzipMagic = '\x1f\x8b';
const formField = 'data=';

export async function unpackPosthogBody(
  body: RawBody,
  _header: unknown,
  bytesMax: number,
): Promise<RawBody | Rejection> {
  const form = body.latin1.startsWith(formField) ? formData(body.latin1) : body;
  if (form instanceof Rejection || !form.latin1.startsWith(gzipMagic)) return form;
  return unpackBody(form, 'gzip', bytesMax);
}

/** The field `data` of a form; any fields after it are ignored. Never longer than the form. */
function formData(form: string): RawBody | Rejection {
  const [encoded = ''] = form.slice(formField.length).split('&', 1);
  let text: string;
  try {
    text = decodeURIComponent(encoded.replaceAll('+', '%20'));
  } catch {
    return invalid('data', 'is not valid percent-encoding');
  }
  if (/^\s*[[{]/.test(text)) return new RawBody(Buffer.from(text));
  // A space stands for a `+` of base64 that the client did not encode.
  const base64 = text.replaceAll(' ', '+');
  if (!/^[A-Za-z0-9+/_=-]*$/.test(base64)) return invalid('data', 'must be JSON or base64');
  return new RawBody(Buffer.from(base64, 'base64'));
}

/**
 * Reads a batch, a list of captures, or a single capture.
 * @param sentAt the parameter `_`: when a browser sent the request.
 */
export function readPosthogBody(body: RawBody, sentAt: unknown): SentItems | Rejection {
  // Each capture is checked as an event.
  const parsed = parseObjectOrList(body, false);
  if ('rejection' in parsed) return parsed.rejection;
  const { value } = parsed;
  if (Array.isArray(value)) {
    if (value.length === 0) return invalid('body', 'must be a JSON object, or a list with a capture');
    const keys = value.flatMap((item, index) => keysOf(item, `[${index}].`));
    return { items: value, nameOf: (index) => `[${index}]`, keys, sentAt };
  }
  if (!isObject(value)) return invalid('body', 'must be a JSON object or a list');
  const { batch } = value;
  const sent = { keys: keysOf(value, ''), sentAt: value['sent_at'] ?? sentAt };
  if (batch === undefined && value['event'] !== undefined) {
    return { items: [value], nameOf: () => '', ...sent };
  }
  if (!Array.isArray(batch)) return invalid('batch', 'must be a list');
  const items: unknown[] = batch;
  return { items, nameOf: (index) => `batch[${index}]`, ...sent };
}

function keysOf(item: unknown, prefix: string): [string, unknown][] {
  if (!isObject(item)) return [];
  const properties: Fields = isObject(item['properties']) ? item['properties'] : {};
  return [
    [`${prefix}api_key`, item['api_key']],
    [`${prefix}token`, item['token']],
    [`${prefix}properties.token`, properties['token']],
  ];
}
