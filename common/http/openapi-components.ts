/** What every route shares in the OpenAPI document: credentials, headers, and the six errors with an example each. */
import { type ErrorCode, statusOf } from './rejection.ts';

const errorTexts: Readonly<Record<ErrorCode, { description: string; message: string; details?: object }>> = {
  VALIDATION_ERROR: {
    description: 'The request is not valid; `details.field` names the field, `details.errors` all of several.',
    message: 'path: is required',
    details: { field: 'path' },
  },
  UNAUTHORIZED: {
    description: 'Credentials are missing, not valid, or expired.',
    message: 'Authentication is missing or not valid.',
  },
  FORBIDDEN: {
    description:
      'Not allowed: it belongs to another organization, the role does not suffice, the endpoint is not for this kind of credential, or the request did not come over HTTPS.',
    message: 'This belongs to another organization.',
  },
  NOT_FOUND: { description: 'There is no such thing.', message: 'There is nothing at this address.' },
  RATE_LIMITED: {
    description: 'Too many requests. `Retry-After` says when the next one will be answered.',
    message: 'Too many requests. Try again in 37 s.',
  },
  INTERNAL_ERROR: {
    description: 'Something went wrong on our side, or a part of the service is away. Nothing was done; try again.',
    message: 'A part of the service is not available at the moment.',
  },
};

const headers = {
  'X-Request-Id': text('Name this when you report a problem.', 'req_01kzg3v5k2'),
  'X-RateLimit-Limit': whole('Requests a minute.', 100),
  'X-RateLimit-Remaining': whole('Requests left in this window.', 99),
  'X-RateLimit-Reset': whole('Unix time in seconds at which the window ends.', 1_790_000_060),
  'Retry-After': whole('Seconds to wait.', 37),
  'WWW-Authenticate': text('The kind of credential that is expected.', 'Bearer'),
};

type HeaderName = keyof typeof headers;

/** Headers that stand on every answer of the API. */
export const everyAnswer: readonly HeaderName[] = [
  'X-Request-Id',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
];

/** The `components` of the document. */
export function components(): object {
  return {
    securitySchemes: {
      bearer: {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'JWT',
        description: 'The access token of POST /auth/login.',
      },
      api_key: {
        type: 'apiKey',
        in: 'header',
        name: 'X-API-Key',
        description: "An app's API key; on /sdk endpoints only.",
      },
      api_key_bearer: { type: 'http', scheme: 'bearer', description: "An app's API key as the bearer value." },
      api_key_basic: {
        type: 'http',
        scheme: 'basic',
        description: "An app's API key as the user; the password is not looked at.",
      },
    },
    headers,
    schemas: { Error: errorSchema },
    responses: Object.fromEntries(
      Object.entries(errorTexts).map(([code, texts]) => [code, errorResponse(code, texts)]),
    ),
  };
}

function errorResponse(code: string, texts: { description: string; message: string; details?: object }): object {
  const more = code === 'RATE_LIMITED' || code === 'INTERNAL_ERROR' ? (['Retry-After'] as const) : [];
  const asks = code === 'UNAUTHORIZED' ? (['WWW-Authenticate'] as const) : [];
  const error = { code, message: texts.message, ...(texts.details ? { details: texts.details } : {}) };
  return {
    description: texts.description,
    headers: headerRefs([...everyAnswer, ...more, ...asks]),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: { error } } },
  };
}

/** References to headers by name, for one answer. */
export function headerRefs(names: readonly HeaderName[]): object {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

const fieldName = {
  type: 'string',
  description: 'Dotted and indexed: `ios.bundle_id`, `events[3].name`; `body` for the whole.',
};

const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: {
        code: { type: 'string', enum: Object.keys(statusOf) },
        message: { type: 'string' },
        details: {
          type: 'object',
          properties: {
            field: fieldName,
            reason: {
              type: 'string',
              description: 'What a program can act on: `totp_required`, `totp_invalid`, `totp_setup_required`.',
            },
            errors: {
              type: 'array',
              maxItems: 100,
              items: {
                type: 'object',
                required: ['field', 'message'],
                properties: { field: fieldName, message: { type: 'string' } },
              },
            },
          },
        },
      },
    },
  },
};

function text(description: string, example: string): object {
  return { description, schema: { type: 'string' }, example };
}

function whole(description: string, example: number): object {
  return { description, schema: { type: 'integer' }, example };
}
