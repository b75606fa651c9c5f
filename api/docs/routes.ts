/** The API reference: as an OpenAPI document and as a web page. */
import { Type } from 'typebox';
import { notFound } from '#common/http/rejection.ts';
import { type Route, routesOf } from '#common/http/route.ts';
import { releaseVersion } from '#common/process/release.ts';
import { type About, openapi } from './openapi.ts';
import { PageAssets, page, pagePolicy } from './page.ts';

const route = routesOf<unknown, unknown>();
const tag = 'Documentation';
/** They change only with a release, so an hour is short enough. */
const cached = { 'Cache-Control': 'public, max-age=3600' };

const version = route({
  method: 'GET',
  path: '/version',
  operationId: 'getVersion',
  caller: 'public',
  limit: 'general',
  tag,
  summary: 'Get the version of this installation',
  answers: {
    200: {
      description: 'The version.',
      schema: Type.Object({ version: Type.String({ description: 'Release, as in CHANGELOG.md.' }) }),
      example: { version: '0.2.0' },
    },
  },
  handle: () => ({ status: 200, body: { version: releaseVersion() } }),
});

/**
 * GET /openapi.json, GET /version, GET /docs and the page's files, all public.
 * @param documented every other route of this origin, in the order in which the document lists them.
 */
export function docsRoutes(documented: readonly Route<never>[], about: About): Route<unknown>[] {
  const assets = new PageAssets();
  let text: string | null = null;

  const document = route({
    method: 'GET',
    path: '/openapi.json',
    operationId: 'getOpenApi',
    caller: 'public',
    limit: 'general',
    tag,
    summary: 'Get the OpenAPI 3.1 document',
    answers: {
      200: {
        description: 'The OpenAPI document.',
        schema: Type.Object({ openapi: Type.String() }, { additionalProperties: true }),
      },
    },
    handle() {
      text ??= JSON.stringify(openapi([...documented, ...own], about));
      return { status: 200, contentType: 'application/json; charset=utf-8', bytes: text, headers: cached };
    },
  });

  const read = route({
    method: 'GET',
    path: '/docs',
    operationId: 'getReference',
    caller: 'public',
    limit: 'general',
    tag,
    summary: 'Show the API reference as a web page',
    answers: { 200: { description: 'The page.', contentType: 'text/html', example: '<!doctype html>' } },
    handle() {
      const headers = { ...cached, 'Content-Security-Policy': pagePolicy, 'Referrer-Policy': 'no-referrer' };
      return { status: 200, contentType: 'text/html; charset=utf-8', bytes: page, headers };
    },
  });

  const file = route({
    method: 'GET',
    path: '/docs/{file}',
    operationId: 'getReferenceFile',
    caller: 'public',
    limit: 'general',
    tag,
    summary: 'Get a file of the API reference page',
    description: '`api.md` explains the rules that apply to all endpoints; `details.doc_url` of an error points to it.',
    params: Type.Object({ file: Type.String() }),
    answers: {
      200: {
        description: 'The file.',
        contentType: 'text/javascript',
        otherTypes: ['text/css', 'text/plain'],
        example: '',
      },
    },
    async handle(_, { params, header }) {
      const asset = await assets.read(params.file);
      if (!asset) return notFound();
      const isGzip = /\bgzip\b/.test(header('accept-encoding'));
      const headers = { ...cached, Vary: 'Accept-Encoding', ...(isGzip ? { 'Content-Encoding': 'gzip' } : {}) };
      return { status: 200, contentType: asset.contentType, bytes: isGzip ? asset.gzipped : asset.bytes, headers };
    },
  });

  const own: Route<unknown>[] = [document, read, file, version];
  return own;
}
