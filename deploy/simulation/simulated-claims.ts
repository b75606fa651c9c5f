/**
 * Claims in the simulated Postgres: at most one for each click, and at most one first claim for each device with a
 * name. No device has an install.
 */
import { HOUR_MS } from '#common/durations.ts';
import type { ClickClaim, DeviceName, NewClaim } from '#gateway/match/claim-store.ts';

export type ClaimRows = ReadonlyMap<string, ClickClaim & { readonly expiresAt: number }>;

/** Adds claims that conflict with no stored one. @returns all claims, and how many are new. */
export function claimed(
  known: ClaimRows,
  given: readonly NewClaim[],
  now: number,
): { claims: ClaimRows; stored: number } {
  const claims = new Map(known);
  let stored = 0;
  for (const claim of [...given].sort((one, other) => (one.click_id < other.click_id ? -1 : 1))) {
    const { click_id, app_id, device, match_id, answer, hours, is_first } = claim;
    const isOwn = (one: ClickClaim) => device !== '' && one.app_id === app_id && one.device === device && one.is_first;
    if (claims.has(click_id) || (is_first && [...claims.values()].some(isOwn))) continue;
    const kept = { click_id, app_id, device, match_id, answer, is_first, is_open_due: false };
    claims.set(click_id, { ...kept, expiresAt: now + hours * HOUR_MS });
    stored++;
  }
  return { claims: stored === 0 ? known : claims, stored };
}

/** The same map if none has expired. */
export function unexpired(claims: ClaimRows, now: number): ClaimRows {
  const kept = [...claims].filter(([, { expiresAt }]) => expiresAt >= now);
  return kept.length === claims.size ? claims : new Map(kept);
}

/** The claims on these clicks, and the first claims of these devices. */
export function claimsFound(
  claims: ClaimRows,
  clickIds: readonly string[],
  devices: readonly DeviceName[],
): ClickClaim[] {
  return [...claims.values()].filter(
    ({ click_id, app_id, device, is_first }) =>
      clickIds.includes(click_id) ||
      (is_first && device !== '' && devices.some((one) => one.app_id === app_id && one.device === device)),
  );
}
