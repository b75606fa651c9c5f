/** The names under which an event waits for its install, as `waiting_keys` of its row has them. */

interface Named {
  readonly install_id: string;
  readonly device_id: string;
  readonly aliases?: readonly string[];
}

/** Added to the keys of an event whose country, region and city came from its own device's address. No name looks like it. */
export const ownCountry = 'country';

/** In order of precedence. */
export function waitingKeys({ install_id, device_id, aliases = [] }: Named): string[] {
  const keys: string[] = [];
  if (install_id !== '') keys.push(`i:${install_id}`);
  if (device_id !== '') keys.push(`d:${device_id}`);
  for (const alias of aliases) keys.push(`d:${alias}`);
  return keys;
}

/** The devices among them. */
export function devicesIn(keys: readonly string[]): string[] {
  return keys.flatMap((key) => (key.startsWith('d:') ? [key.slice(2)] : []));
}
