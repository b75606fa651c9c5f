/** The keys under which an event waits for its install, as stored in the column `waiting_keys`. */

interface Named {
  readonly install_id: string;
  readonly device_id: string;
  readonly aliases?: readonly string[];
}

/** Added to the keys of an event whose location came from its own device's address. No other key has this form. */
export const ownCountry = 'country';

/** In order of precedence. */
export function waitingKeys({ install_id, device_id, aliases = [] }: Named): string[] {
  const keys: string[] = [];
  if (install_id !== '') keys.push(`i:${install_id}`);
  if (device_id !== '') keys.push(`d:${device_id}`);
  for (const alias of aliases) keys.push(`d:${alias}`);
  return keys;
}

/** The device ids among the keys. */
export function devicesIn(keys: readonly string[]): string[] {
  return keys.flatMap((key) => (key.startsWith('d:') ? [key.slice(2)] : []));
}
