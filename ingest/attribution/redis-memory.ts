/** Reads Redis's maxmemory-policy and judges whether it is safe for Signpost. */
import type { Redis } from '#common/stores/redis.ts';

export interface MemoryPolicy {
  readonly policy: string;
  /** One sentence; empty if the policy is safe. */
  readonly fault: string;
}

/** @throws if Redis is unavailable. */
export async function memoryPolicyOf(redis: Redis): Promise<MemoryPolicy> {
  const memory = await redis.commands.info('memory');
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(memory)?.[1] ?? '';
  return judged(field('maxmemory_policy'), Number(field('maxmemory')));
}

/** @param bytesMax 0 means unlimited. */
export function judged(policy: string, bytesMax: number): MemoryPolicy {
  if (policy === '') {
    const fault =
      "Redis reports no maxmemory-policy, as npm start's stand-in for it does not: in production, use Redis or Valkey.";
    return { policy, fault };
  }
  if (policy.startsWith('volatile-') || (policy === 'noeviction' && bytesMax === 0)) return { policy, fault: '' };
  const harm =
    policy === 'noeviction'
      ? 'once it is full, limits and logins are refused and new clicks are not found by their address'
      : 'once it is full, it may forget how far clicks were read, and read hours of them again';
  return { policy, fault: `Redis has maxmemory-policy ${policy}: ${harm}. Set it to volatile-lru.` };
}
