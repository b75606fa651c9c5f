/** A hash that spreads texts evenly. It is not secret and resists no attack. */

/** FNV-1a, continued from `hash`. */
export function mixed(hash: number, text: string): number {
  let value = hash ^ 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value;
}

/** A number from 0 to `count` - 1, by the last step of MurmurHash3: FNV's low bits alone are not even. */
export function evenly(hash: number, count: number): number {
  let value = hash;
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return ((value ^ (value >>> 16)) >>> 0) % count;
}
