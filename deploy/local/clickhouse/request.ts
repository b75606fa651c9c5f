/** One HTTP request of ClickHouse's protocol, read completely. Source: clickhouse.com/docs/interfaces/http. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gunzip, inflate } from 'node:zlib';
import type { Circumstances } from './engine.ts';
import { failure } from './failure.ts';

const gunzipAll = promisify(gunzip);
const inflateAll = promisify(inflate);

export interface ClickHouseRequest {
  readonly at: Circumstances;
  /** The `query` of the URL; empty if the body is the query. */
  readonly urlQuery: string;
  readonly body: Buffer;
  readonly defaultFormat: string;
  readonly wantsGzip: boolean;
  /** Whether the client reads a result only once it is complete. */
  readonly wantsWhole: boolean;
}

/** Parameters of the URL that are not settings of the engine. Sessions and roles do not exist here. */
const notSettings = new Set([
  'query',
  'database',
  'default_format',
  'query_id',
  'user',
  'password',
  'quota_key',
  'readonly',
  'buffer_size',
  'wait_end_of_query',
  'send_progress_in_http_headers',
  'enable_http_compression',
  'http_zlib_compression_level',
  'client_protocol_version',
]);
const refused = new Set(['session_id', 'session_timeout', 'session_check', 'compress', 'decompress', 'role']);
const identifier = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const settingsMax = 256;

function readonlyOf(method: string, given: string | null): 0 | 1 | 2 {
  if (given === '1') return 1;
  if (given === '2') return method === 'GET' ? 1 : 2;
  if (given === null || given === '0') return method === 'GET' ? 1 : 0;
  throw failure(72, 'CANNOT_PARSE_NUMBER', `readonly must be 0, 1 or 2, not ${given}`);
}

function header(request: IncomingMessage, name: string): string {
  const value = request.headers[name];
  return typeof value === 'string' ? value : '';
}

/** The named texts of a body of multipart/form-data (RFC 7578), as the client library writes them; no files. */
function formOf(body: Buffer, contentType: string): Map<string, string> {
  const boundary = /^multipart\/form-data; *boundary="?([\w'()+,./:=? -]{1,70}?)"?$/i.exec(contentType)?.[1];
  const texts = new Map<string, string>();
  const pieces = boundary === undefined ? [] : `\r\n${body}`.split(`\r\n--${boundary}`);
  if (pieces[0] !== '' || !/^--\s*$/.test(pieces.at(-1) ?? ''))
    throw failure(36, 'BAD_ARGUMENTS', 'The body is not multipart/form-data with a boundary, or was cut off');
  for (const piece of pieces.slice(1, -1)) {
    const at = piece.indexOf('\r\n\r\n');
    const name = /^\r\nContent-Disposition: form-data; name="([A-Za-z0-9_]{1,134})"$/i.exec(piece.slice(0, at))?.[1];
    if (at === -1 || name === undefined || texts.has(name) || (name !== 'query' && !name.startsWith('param_')))
      throw failure(
        48,
        'NOT_IMPLEMENTED',
        'A multipart body may have the parts query and param_…, once each, and no files',
      );
    texts.set(name, piece.slice(at + 4));
  }
  return texts;
}

function circumstancesOf(
  request: IncomingMessage,
  url: URL,
  isReader: boolean,
  form: ReadonlyMap<string, string>,
): Circumstances {
  const settings = new Map<string, string>();
  const params = new Map<string, string>();
  for (const [name, value] of [...url.searchParams, ...form]) {
    if (refused.has(name)) throw failure(48, 'NOT_IMPLEMENTED', `${name} is not supported by this server`);
    if (notSettings.has(name)) continue;
    if (!identifier.test(name)) throw failure(115, 'UNKNOWN_SETTING', `${JSON.stringify(name)} is not a setting`);
    if (name.startsWith('param_')) params.set(name.slice(6), value);
    else settings.set(name, value);
  }
  if (settings.size + params.size > settingsMax) {
    throw failure(115, 'UNKNOWN_SETTING', `More than ${settingsMax} settings and parameters`);
  }
  return {
    queryId: url.searchParams.get('query_id') || randomUUID(),
    database: url.searchParams.get('database') || header(request, 'x-clickhouse-database') || 'default',
    settings,
    params,
    readonly: isReader ? 1 : readonlyOf(request.method ?? 'GET', url.searchParams.get('readonly')),
  };
}

/** The whole body as it was sent. @throws if it is larger than allowed, or if the connection ended early. */
async function readBody(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) throw new TypeError('the body has an unexpected encoding');
    bytes += chunk.length;
    if (bytes > bytesMax) throw failure(307, 'TOO_MANY_BYTES', `The body is larger than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  // An insert that was cut off must not be mistaken for a short one.
  if (!request.complete) throw failure(32, 'ATTEMPT_TO_READ_AFTER_EOF', 'The body was cut off');
  return Buffer.concat(chunks, bytes);
}

async function decompress(body: Buffer, encoding: string, bytesMax: number): Promise<Buffer> {
  if (encoding === '' || encoding === 'identity' || body.length === 0) return body;
  if (encoding !== 'gzip' && encoding !== 'deflate') {
    throw failure(48, 'NOT_IMPLEMENTED', `Content-Encoding ${encoding} is not supported by this server`);
  }
  try {
    return await (encoding === 'gzip' ? gunzipAll : inflateAll)(body, { maxOutputLength: bytesMax });
  } catch (error) {
    const isTooLarge = error instanceof RangeError;
    if (isTooLarge) throw failure(307, 'TOO_MANY_BYTES', `The body is larger than ${bytesMax} bytes`);
    throw failure(32, 'ATTEMPT_TO_READ_AFTER_EOF', `The compressed body is broken or was cut off`);
  }
}

/** @param isReader whether the user may only read. @throws Failure if anything in the request is invalid. */
export async function readRequest(
  request: IncomingMessage,
  url: URL,
  bytesMax: number,
  isReader: boolean,
): Promise<ClickHouseRequest> {
  const sent = await readBody(request, bytesMax);
  const body = await decompress(sent, header(request, 'content-encoding'), bytesMax);
  const contentType = header(request, 'content-type');
  const isForm = contentType.startsWith('multipart/');
  const form = isForm ? formOf(body, contentType) : new Map<string, string>();
  const compression = url.searchParams.get('enable_http_compression');
  return {
    at: circumstancesOf(request, url, isReader, form),
    urlQuery: url.searchParams.get('query') ?? form.get('query') ?? '',
    body: isForm ? Buffer.alloc(0) : body,
    defaultFormat: url.searchParams.get('default_format') || header(request, 'x-clickhouse-format') || 'TabSeparated',
    wantsGzip: (compression === '1' || compression === 'true') && /\bgzip\b/.test(header(request, 'accept-encoding')),
    wantsWhole: url.searchParams.get('wait_end_of_query') === '1',
  };
}
