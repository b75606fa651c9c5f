/**
 * A ClickHouse exception: its number, and a text that begins with `Code: <number>.`, as ClickHouse's clients expect it.
 */
export class Failure extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.name = 'Failure';
    this.code = code;
  }
}

export function failure(code: number, name: string, message: string): Failure {
  return new Failure(code, `Code: ${code}. DB::Exception: ${message}. (${name})`);
}

/**
 * Converts whatever the engine threw; its text contains `Code: <number>.`, sometimes after a prefix from the binding.
 */
export function toFailure(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  const found = /Code: (\d+)\./.exec(text);
  if (!found) return failure(1000, 'UNKNOWN_EXCEPTION', text.trim());
  return new Failure(Number(found[1]), text.slice(found.index).trim());
}

/** Source: exceptionCodeToHTTPStatus in ClickHouse's src/Server/HTTP. */
const statusOfCode = new Map<number, number>([
  [6, 400], // CANNOT_PARSE_TEXT
  [26, 400], // CANNOT_PARSE_QUOTED_STRING
  [27, 400], // CANNOT_PARSE_INPUT_ASSERTION_FAILED
  [32, 400], // ATTEMPT_TO_READ_AFTER_EOF
  [36, 400], // BAD_ARGUMENTS
  [38, 400], // CANNOT_PARSE_DATE
  [41, 400], // CANNOT_PARSE_DATETIME
  [46, 404], // UNKNOWN_FUNCTION
  [47, 404], // UNKNOWN_IDENTIFIER
  [48, 501], // NOT_IMPLEMENTED
  [50, 404], // UNKNOWN_TYPE
  [53, 400], // TYPE_MISMATCH
  [60, 404], // UNKNOWN_TABLE
  [62, 400], // SYNTAX_ERROR
  [72, 400], // CANNOT_PARSE_NUMBER
  [73, 404], // UNKNOWN_FORMAT
  [81, 404], // UNKNOWN_DATABASE
  [108, 400], // NO_DATA_TO_INSERT
  [115, 404], // UNKNOWN_SETTING
  [117, 400], // INCORRECT_DATA
  [159, 408], // TIMEOUT_EXCEEDED
  [164, 403], // READONLY
  [202, 503], // TOO_MANY_SIMULTANEOUS_QUERIES
  [381, 411], // HTTP_LENGTH_REQUIRED
  [456, 400], // UNKNOWN_QUERY_PARAMETER
  [457, 400], // BAD_QUERY_PARAMETER
  [497, 403], // ACCESS_DENIED
  [516, 403], // AUTHENTICATION_FAILED
  [307, 413], // TOO_MANY_BYTES
]);

export function httpStatus(code: number): number {
  return statusOfCode.get(code) ?? 500;
}
