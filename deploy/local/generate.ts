/**
 * `npm run generate`: writes the generated files: docs/openapi.json, the dashboard's types of it, docs/settings.md,
 * docs/scaling.md and the dumps of both schemas.
 * `--check` writes nothing and reports what is outdated; it only checks what needs no servers.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openapi } from '#api/docs/openapi.ts';
import { docsRoutes } from '#api/docs/routes.ts';
import { aboutApi } from '#api/parts.ts';
import { apiRoutes } from '#api/routes.ts';
import { scalingPage } from '#bench/scaling-page.ts';
import { loadConfig } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import { gatewayRoutes } from '#gateway/routes.ts';
import { apiTypes } from './api-types.ts';
import { sdkSnippets } from './sdk-snippets.ts';
import { settingsPage } from './settings-page.ts';

type Page = readonly [file: string, text: () => string | Promise<string>];

const pages: Page[] = [
  ['docs/settings.md', settingsPage],
  ['docs/scaling.md', scalingPage],
  ['docs/openapi.json', () => `${JSON.stringify(openapiDocument(), null, 2)}\n`],
  ['dashboard/api-types.d.ts', () => apiTypes(openapiDocument())],
  ['dashboard/sdk-snippets.ts', sdkSnippets],
];

/** Ignores the environment, so that the text is the same on every machine. */
function openapiDocument(): Record<string, unknown> {
  const about = aboutApi(loadConfig([], {}));
  const documented = [...apiRoutes, ...gatewayRoutes];
  return openapi([...documented, ...docsRoutes(documented, about)], about);
}

const isCheck = process.argv.includes('--check');
const stale: string[] = [];
for (const [file, text] of pages) {
  const path = join(packageRoot(), file);
  const wanted = await text();
  let current = '';
  try {
    current = readFileSync(path, 'utf8');
  } catch {
    // A missing file also counts as outdated.
  }
  if (current === wanted) continue;
  if (isCheck) stale.push(file);
  else writeFileSync(path, wanted);
}
if (!isCheck) {
  const { writeSchemas } = await import('./schema-dump.ts');
  await writeSchemas(packageRoot());
}
if (stale.length > 0) {
  console.error(`${stale.join(' and ')} no longer match the code: run npm run generate`);
  process.exitCode = 1;
}
