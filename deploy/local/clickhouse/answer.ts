/** The responses of ClickHouse's HTTP protocol. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { constants, createGzip } from 'node:zlib';
import type { Written } from './engine.ts';
import { type Failure, httpStatus, toFailure } from './failure.ts';

export interface AnswerFormat {
  readonly queryId: string;
  readonly format: string;
  readonly wantsGzip: boolean;
}

function contentType(format: string): string {
  if (/^JSON.*EachRow/.test(format)) return 'application/x-ndjson; charset=UTF-8';
  if (format.startsWith('JSON')) return 'application/json; charset=UTF-8';
  if (format.startsWith('CSV')) return 'text/csv; charset=UTF-8; header=absent';
  if (/^(TSV|TabSeparated)/.test(format)) return 'text/tab-separated-values; charset=UTF-8';
  if (/^(RowBinary|Native|Parquet|Arrow)/.test(format)) return 'application/octet-stream';
  return 'text/plain; charset=UTF-8';
}

function headersOf(kind: AnswerFormat): Record<string, string> {
  return {
    'Content-Type': contentType(kind.format),
    'X-ClickHouse-Query-Id': kind.queryId,
    'X-ClickHouse-Format': kind.format,
    'X-ClickHouse-Timezone': 'UTC',
    'X-ClickHouse-Server-Display-Name': 'signpost-local',
  };
}

/** Counts are strings, as in ClickHouse. */
function summary(written: Written): string {
  return JSON.stringify({
    read_rows: '0',
    read_bytes: '0',
    written_rows: String(written.rows),
    written_bytes: String(written.bytes),
    total_rows_to_read: '0',
    result_rows: String(written.rows),
    result_bytes: String(written.bytes),
    elapsed_ns: String(written.elapsedNs),
  });
}

export function answerText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=UTF-8' });
  response.end(text);
}

export function answerFailure(response: ServerResponse, queryId: string, failed: Failure): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  response.writeHead(httpStatus(failed.code), {
    'Content-Type': 'text/plain; charset=UTF-8',
    'X-ClickHouse-Exception-Code': String(failed.code),
    'X-ClickHouse-Query-Id': queryId,
  });
  response.end(`${failed.message}\n`);
}

export function answerWritten(response: ServerResponse, kind: AnswerFormat, written: Written): void {
  response.writeHead(200, { ...headersOf(kind), 'X-ClickHouse-Summary': summary(written) });
  response.end();
}

/** Text by which clients of ClickHouse 25.11 or later recognize an incomplete result. */
function exceptionTrailer(tag: string, failed: Failure): string {
  const message = `${failed.message}\n`;
  const length = Buffer.byteLength(message);
  return `\r\n__exception__\r\n${tag}\r\n${message}${length} ${tag}\r\n__exception__\r\n`;
}

async function writeAll(sink: Writable, chunk: Uint8Array): Promise<void> {
  if (sink.write(chunk)) return;
  await Promise.race([once(sink, 'drain'), once(sink, 'close')]);
}

/**
 * Streams the parts with backpressure. A failure before the first part is an error status; a later one is a trailer
 * after the rows already sent. @returns whether the client stayed until the end.
 */
export async function answerParts(
  response: ServerResponse,
  kind: AnswerFormat,
  parts: AsyncGenerator<Uint8Array>,
): Promise<boolean> {
  // Awaits the first part before sending headers: most failures occur there.
  let part = await parts.next();
  const tag = randomBytes(8).toString('hex');
  response.writeHead(200, {
    ...headersOf(kind),
    'X-ClickHouse-Exception-Tag': tag,
    ...(kind.wantsGzip ? { 'Content-Encoding': 'gzip' } : {}),
  });
  const sink = kind.wantsGzip ? createGzip({ level: constants.Z_BEST_SPEED }) : response;
  if (sink !== response) sink.pipe(response);
  try {
    while (part.done !== true && !response.destroyed) {
      await writeAll(sink, part.value);
      part = await parts.next();
    }
  } catch (error) {
    if (!response.destroyed) sink.write(exceptionTrailer(tag, toFailure(error)));
  } finally {
    await parts.return(undefined);
  }
  if (response.destroyed) {
    if (sink !== response) sink.destroy();
    return false;
  }
  sink.end();
  return true;
}
