/** An app's setting for Firebase long links (long-link.ts). */
import { isObject } from '#common/json-object.ts';

/** The setting of an app; without it, such links are not answered. */
export interface LongLinkSettings {
  /** Allowed destination hosts. */
  readonly hosts: readonly string[];
  /** Paths besides `/`, without a trailing slash. */
  readonly prefixes: readonly string[];
}

export function longLinkSettingsOf(value: unknown): LongLinkSettings | null {
  if (!isObject(value)) return null;
  const { hosts, prefixes } = value;
  return {
    hosts: Array.isArray(hosts) ? hosts.map(String) : [],
    prefixes: Array.isArray(prefixes) ? prefixes.map(String) : [],
  };
}
