/**
 * The requirements for every answer, whatever was sent: the description, the envelope, the headers, and no other
 * tenant's text.
 */
import type { Description, Operation } from './description.ts';
import type { Received } from './wire.ts';

const statusByCode: Readonly<Record<string, number>> = {
  VALIDATION_ERROR: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
};
/** The HTTP library refuses a head larger than its buffer before there is a request to handle. */
const headTooLarge = 431;
/** The allowed answers for an unknown address. */
const strayStatuses = new Set([400, 401, 403, 404, 429]);
const leaks = [
  /\bat [\w.<>]+ \(?(?:file|node|\/)/,
  /\bSELECT\b.*\bFROM\b/s,
  /\bINSERT INTO\b/,
  /node_modules/,
  /DB::Exception/,
];

/** @returns each fault in words; none for a correct answer. */
export function faultsOf(
  description: Description,
  operation: Operation | null,
  method: string,
  { status, headers, body }: Received,
): string[] {
  const faults: string[] = [];
  if (status === headTooLarge) return faults;
  const type = String(headers['content-type'] ?? '').replace(/;.*/, '');
  const text = body.toString('utf8');
  if (status >= 500) faults.push(`${status} although every store is available: ${text.slice(0, 300)}`);
  for (const name of ['x-request-id', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']) {
    // A request that is refused before it is charged has no rate limit headers.
    if (headers[name] === undefined && (name === 'x-request-id' || operation !== null))
      faults.push(`${name} is missing`);
  }
  for (const leak of leaks) if (leak.test(text)) faults.push(`it reveals internals: ${text.slice(0, 300)}`);
  if (status >= 400) faults.push(...envelopeFaults(description, status, headers, method === 'HEAD' ? null : text));
  if (operation === null) {
    // HEAD is answered like GET, without a body, and is not described.
    const isHead = method === 'HEAD' && status < 400 && text === '';
    if (!isHead && !strayStatuses.has(status)) faults.push(`${status} for an unknown address`);
    return faults;
  }
  const contents = operation.answers.get(status);
  if (!contents) return [...faults, `${status} is not described`];
  if (!contents.has(type))
    return [...faults, `${status} with ${type}, described are ${[...contents.keys()].join(', ')}`];
  const check = contents.get(type);
  if (check) {
    const value = parsed(text);
    if (!check(value)) {
      const errors = (check.errors ?? [])
        .slice(0, 3)
        .map((one) => `${one.instancePath} ${one.message} ${JSON.stringify(one.params)}`);
      faults.push(`${status} does not fit its schema: ${errors.join('; ')}`);
    }
  }
  return faults;
}

function envelopeFaults(
  description: Description,
  status: number,
  headers: Received['headers'],
  text: string | null,
): string[] {
  const faults: string[] = [];
  if (status === 401 && headers['www-authenticate'] !== 'Bearer') faults.push('a 401 without WWW-Authenticate');
  if (status === 429 && !(Number(headers['retry-after']) >= 1)) faults.push('a 429 without Retry-After');
  if (text === null) return faults;
  const value = parsed(text);
  if (!description.isEnvelope(value)) return [...faults, `${status} without the envelope: ${text.slice(0, 300)}`];
  const { error } = value as { error: { code: string; details?: { field?: string } } };
  if (statusByCode[error.code] !== status) faults.push(`${error.code} with ${status}`);
  if (status === 400 && !error.details?.field) faults.push('a 400 that names no field');
  return faults;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
