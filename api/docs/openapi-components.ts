/** Shared components of the OpenAPI document: credentials, headers, and the six errors with examples. */
import { errorDetailsSchema } from '#api/error-details.ts';
import { docUrlOf } from '#common/http/doc-pages.ts';
import { type ErrorCode, statusOf } from '#common/http/rejection.ts';

const errorTexts: Readonly<Record<ErrorCode, { description: string; message: string; field?: string }>> = {
  VALIDATION_ERROR: {
    description:
      'The request is not valid. `details.field` names the field; `details.errors` lists all errors if there are several.',
    message: 'path: is required',
    field: 'path',
  },
  UNAUTHORIZED: {
    description: 'Credentials are missing, not valid, or expired.',
    message: 'Authentication is missing or not valid.',
  },
  FORBIDDEN: {
    description:
      'Not allowed: the resource belongs to another organization, your role is not sufficient, the endpoint does not accept this kind of credential, or the request did not use HTTPS.',
    message: 'This belongs to another organization.',
  },
  NOT_FOUND: { description: 'The resource does not exist.', message: 'The requested resource does not exist.' },
  RATE_LIMITED: {
    description: 'Too many requests. `Retry-After` gives the number of seconds to wait.',
    message: 'Too many requests. Try again in 37 s.',
  },
  INTERNAL_ERROR: {
    description: 'An internal error, or part of the service is unavailable. Nothing was changed; try again.',
    message: 'A part of the service is unavailable. Try again later.',
  },
};

const headers = {
  'X-Request-Id': text('Identifies the request; quote it when you report a problem.', 'req_01kzg3v5k2'),
  'X-RateLimit-Limit': whole('Requests allowed per minute.', 100),
  'X-RateLimit-Remaining': whole('Requests left in this window.', 99),
  'X-RateLimit-Reset': whole('Unix time in seconds at which the window ends.', 1_790_000_060),
  'Retry-After': whole('Seconds to wait.', 37),
  'WWW-Authenticate': text('The expected kind of credential.', 'Bearer'),
  Allow: text('Only if the address exists for other methods: these.', 'GET, HEAD, POST'),
  'Idempotent-Replayed': text('Only if the request was answered before with the same Idempotency-Key.', 'true'),
};

type HeaderName = keyof typeof headers;

/** Headers of every response of the API. */
export const everyAnswer: readonly HeaderName[] = [
  'X-Request-Id',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
];

/** The `components` of the document. @param schemas of the routes, by name. */
export function components(schemas: Readonly<Record<string, unknown>>): object {
  return {
    securitySchemes: {
      bearer: {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'JWT',
        description: 'The access token from POST /auth/login.',
      },
      session: {
        type: 'apiKey',
        in: 'cookie',
        name: '__Host-signpost',
        description:
          'The dashboard’s cookie (POST /session), only on requests from pages of this origin; writes also need X-Signpost-Session.',
      },
      server_key: {
        type: 'http',
        scheme: 'bearer',
        description: 'A server key (POST /keys) as the bearer token. Each endpoint lists the scope that the key needs.',
      },
      api_key: {
        type: 'apiKey',
        in: 'header',
        name: 'X-API-Key',
        description: "An app's API key; on /sdk endpoints only.",
      },
      api_key_bearer: { type: 'http', scheme: 'bearer', description: "An app's API key as the bearer token." },
      api_key_basic: {
        type: 'http',
        scheme: 'basic',
        description: "An app's API key as the user name; the password is ignored.",
      },
    },
    headers,
    parameters: {
      IdempotencyKey: {
        name: 'Idempotency-Key',
        in: 'header',
        required: false,
        description:
          'A unique value of your choice. Within 24 hours, repeating the request with the same key returns the first answer, with the header Idempotent-Replayed: true; a different request with the same key gets a 400.',
        schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
        example: '5f0c4e1a-8a52-4c5e-9a0e-1f3a8f0b6c2d',
      },
    },
    schemas: { Error: errorSchema, ErrorDetails: detailsSchema, ...schemas },
    responses: Object.fromEntries(
      Object.entries(errorTexts).map(([code, texts]) => [code, errorResponse(code, texts)]),
    ),
  };
}

const headersOfErrors: Readonly<Record<string, readonly HeaderName[]>> = {
  UNAUTHORIZED: ['WWW-Authenticate'],
  NOT_FOUND: ['Allow'],
  RATE_LIMITED: ['Retry-After'],
  INTERNAL_ERROR: ['Retry-After'],
};

function errorResponse(code: string, texts: { description: string; message: string; field?: string }): object {
  const { message, field } = texts;
  const errors = field === undefined ? [] : [{ field }];
  const details = { ...errors[0], doc_url: docUrlOf({ code, reason: null, errors }) };
  const error = { code, message, details };
  return {
    description: texts.description,
    headers: headerRefs([...everyAnswer, ...(headersOfErrors[code] ?? [])]),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: { error } } },
  };
}

/** References to headers by name, for one response. */
export function headerRefs(names: readonly HeaderName[]): object {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

const { title: _, ...detailsSchema } = errorDetailsSchema;

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
        details: { $ref: '#/components/schemas/ErrorDetails' },
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
