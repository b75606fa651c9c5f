/** The page at /v1/docs: Swagger UI from our own node_modules, so that it works without the internet. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { apiGuide } from '#common/http/doc-pages.ts';
import { packageRoot } from '#common/process/paths.ts';

const compress = promisify(gzip);

export interface Asset {
  readonly contentType: string;
  readonly bytes: Uint8Array;
  readonly gzipped: Uint8Array;
}

/** No external content and no inline scripts. Swagger UI writes style attributes, which require 'unsafe-inline'. */
export const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Signpost API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="docs/favicon-32x32.png">
</head>
<body>
<div id="page"><noscript>This page needs JavaScript. The same document as JSON: <a href="openapi.json">openapi.json</a></noscript></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;

const start = `SwaggerUIBundle({ url: 'openapi.json', dom_id: '#page', deepLinking: true, validatorUrl: null, docExpansion: 'list' });
`;

const javascript = 'text/javascript; charset=utf-8';

/** The only files that are served, whatever else the package contains. */
const contentTypes: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': javascript,
  'favicon-32x32.png': 'image/png',
  'start.js': javascript,
  // As text, since browsers offer Markdown as a download.
  [apiGuide]: 'text/plain; charset=utf-8',
};

/** The files of the page by name: read and compressed on their first use, then cached. */
export class PageAssets {
  readonly #loaded = new Map<string, Promise<Asset>>();

  /** Null if the page has no such file. @throws if the package is not installed. */
  async read(name: string): Promise<Asset | null> {
    const contentType = Object.hasOwn(contentTypes, name) ? contentTypes[name] : undefined;
    if (contentType === undefined) return null;
    const loaded = this.#loaded.get(name) ?? load(name, contentType);
    this.#loaded.set(name, loaded);
    loaded.catch(() => this.#loaded.delete(name));
    return loaded;
  }
}

async function load(name: string, contentType: string): Promise<Asset> {
  const bytes = name === 'start.js' ? Buffer.from(start) : await readFile(join(folderOf(name), name));
  return { contentType, bytes, gzipped: await compress(bytes) };
}

function folderOf(name: string): string {
  return name === apiGuide ? join(packageRoot(), 'docs') : packageFolder();
}

function packageFolder(): string {
  const fromRoot = createRequire(join(packageRoot(), 'package.json'));
  return dirname(fromRoot.resolve('swagger-ui-dist/package.json'));
}
