/** The page that asks for the password of a link. It contains neither the destination nor anything else of the link. */
import { pathOfCode } from '#common/links/short-code.ts';
import { escapeHtml, page } from './page.ts';

/** Browsers apply `form-action` to redirects after the form too, so it allows destinations. */
export const passwordPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self' https:; frame-ancestors 'none'";

export const passwordPageStates = ['asked', 'wrong', 'limited'] as const;
export type PasswordPageState = (typeof passwordPageStates)[number];

const notes: Readonly<Record<PasswordPageState, string>> = {
  asked: 'Ask the sender if you do not have it.',
  wrong: 'The password is wrong. Try again.',
  limited: 'Too many attempts. Try again in a minute.',
};

/** @param query of the visit, which goes on to the destination. */
export function passwordPage(shortCode: string, query: string, state: PasswordPageState): string {
  const link = pathOfCode(shortCode) + (query === '' ? '' : `?${query}`);
  return page(
    'This link needs a password',
    '<style>input,button{font:inherit;padding:.5rem .75rem;margin:.25rem 0}</style>',
    `<h1>This link needs a password</h1><p>${notes[state]}</p><form method="post" action="/-/unlock">` +
      `<input type="hidden" name="link" value="${escapeHtml(link)}">` +
      '<input type="password" name="password" aria-label="Password" required maxlength="200" autocomplete="off" autofocus>' +
      ' <button>Open</button></form>',
  );
}
