/**
 * The dashboard's files, built by build.mjs to dist/dashboard: `index.html` for every address except `/shared`, which
 * has its own page, and assets whose names contain a hash of their content. All files are read once, at startup.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { Answer } from '#common/http/route.ts';
import type { Pages } from '#common/http/server.ts';
import { packageRoot } from '#common/process/paths.ts';

/** Nothing external, nothing inline; the page may not be framed. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const pageHeaders = {
  'Cache-Control': 'no-cache',
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Robots-Tag': 'noindex',
  Vary: 'Accept, Accept-Encoding',
};
const assetHeaders = { 'Cache-Control': 'public, max-age=31536000, immutable', Vary: 'Accept-Encoding' };

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.woff2': 'font/woff2',
};
/** In order of preference; the empty string is the uncompressed file. */
const codings = [
  ['br', '.br'],
  ['gzip', '.gz'],
  ['', ''],
] as const;

interface StoredFile {
  readonly contentType: string;
  readonly etag: string;
  readonly bytes: ReadonlyMap<string, Buffer>;
}

export class DashboardFiles implements Pages {
  readonly #page: StoredFile;
  readonly #shared: StoredFile;
  readonly #assets: ReadonlyMap<string, StoredFile>;

  private constructor(folder: string) {
    this.#page = fileAt(join(folder, 'index.html'));
    this.#shared = fileAt(join(folder, 'shared.html'));
    const names = readdirSync(join(folder, 'assets')).filter((name) => Object.hasOwn(contentTypes, extname(name)));
    this.#assets = new Map(names.map((name) => [`/assets/${name}`, fileAt(join(folder, 'assets', name))]));
  }

  /** Undefined if the dashboard was not built. */
  static load(folder = join(packageRoot(), 'dist', 'dashboard')): DashboardFiles | undefined {
    return existsSync(join(folder, 'index.html')) ? new DashboardFiles(folder) : undefined;
  }

  find(path: string, header: (name: string) => string): Answer | null {
    const asset = this.#assets.get(path);
    if (asset) return answerOf(asset, header, assetHeaders);
    // A missing asset belongs to another release: answering it with the page would hide that.
    const accepted = header('accept');
    // Monitors and curl open the first page and accept anything.
    const isAnything = path === '/' && (accepted === '' || accepted.includes('*/*'));
    const isPage = !path.startsWith('/assets/') && (isAnything || /\btext\/html\b/.test(accepted));
    if (!isPage) return null;
    return answerOf(path === '/shared' ? this.#shared : this.#page, header, pageHeaders);
  }
}

function answerOf(file: StoredFile, header: (name: string) => string, headers: Record<string, string>): Answer {
  const { contentType, etag } = file;
  if (header('if-none-match') === etag) {
    return { status: 304, contentType, bytes: '', headers: { ...headers, ETag: etag } };
  }
  const accepted = header('accept-encoding');
  for (const [coding] of codings) {
    const bytes = file.bytes.get(coding);
    if (!bytes || (coding !== '' && !new RegExp(`\\b${coding}\\b`).test(accepted))) continue;
    const encoding = coding === '' ? {} : { 'Content-Encoding': coding };
    return { status: 200, contentType, bytes, headers: { ...headers, ...encoding, ETag: etag } };
  }
  throw new Error('a file of the dashboard has no bytes');
}

function fileAt(path: string): StoredFile {
  const bytes = new Map<string, Buffer>();
  for (const [coding, extension] of codings) {
    if (existsSync(path + extension)) bytes.set(coding, readFileSync(path + extension));
  }
  const etag = `"${createHash('sha256')
    .update(bytes.get('') ?? '')
    .digest('base64url')
    .slice(0, 22)}"`;
  return { contentType: contentTypes[extname(path)] ?? 'application/octet-stream', etag, bytes };
}
