/** The partition of a record: the same for everything that must be counted together. */

/** FNV-1a over UTF-16 code units; it must never change, since it decides which partition counts a record. */
export function partitionOf(app_id: string, id: string, partitions: number): number {
  if (partitions === 1) return 0;
  let hash = 0x811c9dc5;
  for (let i = 0; i < app_id.length; i++) hash = Math.imul(hash ^ app_id.charCodeAt(i), 0x01000193);
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % partitions;
}
