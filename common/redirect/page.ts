/** The pages that are not redirects. Small, without scripts or external resources, all text escaped. */
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { pathOfCode } from '#common/links/short-code.ts';

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export function escapeHtml(text: string): string {
  return text.toWellFormed().replace(/[&<>"']/g, (character) => escapes[character] ?? '');
}

export function page(title: string, head: string, body: string): string {
  return (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
    '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">' +
    `<title>${title}</title>${head}` +
    '<style>body{font:17px/1.5 system-ui,sans-serif;margin:20vh auto 0;max-width:32rem;padding:0 1.5rem;color:#222;' +
    'background:#fff}h1{font-size:1.4rem;font-weight:600}p{color:#666}@media(prefers-color-scheme:dark)' +
    '{body{color:#eee;background:#161616}p{color:#aaa}}</style>' +
    `</head><body>${body}</body></html>\n`
  );
}

const message = (title: string, text: string) => page(title, '', `<h1>${title}</h1><p>${text}</p>`);

export const refusals = {
  not_found: {
    status: '404 Not Found',
    html: message('This link does not exist', 'It may have been removed, or mistyped.'),
    json: '{"error":{"code":"NOT_FOUND","message":"This link does not exist."}}\n',
  },
  gone: {
    status: '410 Gone',
    html: message('This link has expired', 'Ask the sender for a new one.'),
    json: '{"error":{"code":"NOT_FOUND","message":"The link has expired."}}\n',
  },
  unavailable: {
    status: '503 Service Unavailable',
    html: message('This link cannot be opened right now', 'Please try again in a few seconds.'),
    json: '{"error":{"code":"INTERNAL_ERROR","message":"The link cannot be looked up right now."}}\n',
  },
  method_not_allowed: {
    status: '405 Method Not Allowed',
    html: message('Links can only be opened', 'Use GET or HEAD.'),
    json: '{"error":{"code":"NOT_FOUND","message":"Use GET or HEAD."}}\n',
  },
  bad_request: {
    status: '400 Bad Request',
    html: message('This request cannot be understood', 'It contradicts itself.'),
    json: '{"error":{"code":"VALIDATION_ERROR","message":"The request contradicts itself."}}\n',
  },
  loop: {
    status: '508 Loop Detected',
    html: message('This link leads in a circle', 'Tell the sender: its destination leads back to it.'),
    json: '{"error":{"code":"INTERNAL_ERROR","message":"The destination leads back to the link."}}\n',
  },
} as const;

export type PageReason = keyof typeof refusals;

/** The HTML that the app has for such an answer; null: that of every host. */
export function ownPage(reason: PageReason, app: LinkedApp | null): string | null {
  if (reason === 'not_found') return app?.pages.not_found ?? null;
  return reason === 'gone' ? (app?.pages.expired ?? null) : null;
}

/** Whether the link has its own preview fields. */
export function hasPreview(link: LinkSnapshot): boolean {
  return Boolean(link.og_title || link.og_description || link.og_image_url);
}

/** Open Graph (ogp.me) and Twitter card tags for crawlers that show previews. */
export function previewPage(link: LinkSnapshot, app: LinkedApp): string {
  const title = escapeHtml(link.og_title ?? app.host);
  const description = escapeHtml(link.og_description ?? '');
  const image = link.og_image_url?.startsWith('https://') ? escapeHtml(link.og_image_url) : '';
  const tags = [
    '<meta property="og:type" content="website">',
    // A long link that is no link yet has no address of its own.
    ...(link.id === ''
      ? []
      : [`<meta property="og:url" content="${escapeHtml(`https://${app.host}${pathOfCode(link.short_code)}`)}">`]),
    `<meta property="og:title" content="${title}">`,
    `<meta name="twitter:card" content="${image === '' ? 'summary' : 'summary_large_image'}">`,
    `<meta name="twitter:title" content="${title}">`,
  ];
  if (description !== '') {
    tags.push(
      `<meta property="og:description" content="${description}">`,
      `<meta name="twitter:description" content="${description}">`,
      `<meta name="description" content="${description}">`,
    );
  }
  if (image !== '') {
    tags.push(`<meta property="og:image" content="${image}">`, `<meta name="twitter:image" content="${image}">`);
  }
  return page(title, tags.join(''), `<h1>${title}</h1><p>${description}</p>`);
}
