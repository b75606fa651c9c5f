/** Where a client finds more about an error: sections of docs/api.md, which the API serves itself. */

export const apiGuide = 'api.md';
/** Relative to the request, so that it needs no name of this host. */
const page = `/v1/docs/${apiGuide}`;

/** The value of `details.reason` with the section that explains it. */
const byReason = {
  account_exists: 'people',
  email_unverified: 'people',
  mail_not_configured: 'people',
  other_account: 'people',
  password_required: 'shared-pages',
  password_wrong: 'shared-pages',
  scope_missing: 'server-keys',
  sdk_links_off: 'authentication',
  server_key_not_accepted: 'server-keys',
  slow_body: 'errors',
  taken: 'many-links',
  totp_invalid: 'second-factor',
  totp_required: 'second-factor',
  totp_setup_required: 'second-factor',
} as const;
export type ErrorReason = keyof typeof byReason;
export const errorReasons = Object.keys(byReason) as readonly ErrorReason[];

/** Sections about parameters and headers whose rules are longer than a message. */
const byField = new Map([
  ['currency', 'one-currency'],
  ['cursor', 'many-links'],
  ['idempotency-key', 'repeating-a-request'],
  ['tag', 'filters'],
]);
const byCode = new Map([
  ['RATE_LIMITED', 'limits'],
  ['UNAUTHORIZED', 'authentication'],
]);
/** The table of all errors. */
const everyError = 'errors';

/** Every section to which an error can point. */
export const docSections: readonly string[] = [
  ...new Set([...Object.values(byReason), ...byField.values(), ...byCode.values(), everyError]),
];

interface Explained {
  readonly code: string;
  readonly reason: ErrorReason | null;
  readonly errors: readonly { readonly field: string }[];
}

export function docUrlOf({ code, reason, errors }: Explained): string {
  const [first] = errors;
  const special = reason === null ? byField.get(first?.field ?? '') : byReason[reason];
  return `${page}#${special ?? byCode.get(code) ?? everyError}`;
}
