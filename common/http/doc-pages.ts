/** Where a client finds more about an error: sections of docs/api.md, which the API serves itself. */

export const apiGuide = 'api.md';
/** Relative to the request, so that it needs no name of this host. */
const page = `/v1/docs/${apiGuide}`;

const byReason = new Map(
  Object.entries({
    click_pending: 'matching-a-device-to-a-click',
    scope_missing: 'server-keys',
    sdk_links_off: 'authentication',
    server_key_not_accepted: 'server-keys',
    taken: 'many-links',
    totp_invalid: 'second-factor',
    totp_required: 'second-factor',
    totp_setup_required: 'second-factor',
  }),
);
const byField = new Map([['idempotency-key', 'repeating-a-request']]);
const byCode = new Map([['RATE_LIMITED', 'limits']]);

/** Every section to which an error can point. */
export const docSections: readonly string[] = [
  ...new Set([...byReason.values(), ...byField.values(), ...byCode.values()]),
];

interface Explained {
  readonly code: string;
  readonly reason: string | null;
  readonly errors: readonly { readonly field: string }[];
}

/** Null for most errors: their message says all. */
export function docUrlOf({ code, reason, errors }: Explained): string | null {
  const [first] = errors;
  const section = byReason.get(reason ?? '') ?? byField.get(first?.field ?? '') ?? byCode.get(code);
  return section === undefined ? null : `${page}#${section}`;
}
