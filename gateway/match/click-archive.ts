/** Where clicks are found that Redis has lost. */
import type { RecentClick } from '#common/recent-clicks.ts';

export interface ClickArchive {
  /** The click and the device that has it; null when there is none, or when nobody can say. */
  find(appId: string, clickId: string): Promise<{ readonly click: RecentClick; readonly claimed_by: string } | null>;
}

/** For an edge without one: what Redis has lost is not found. */
export const noArchive: ClickArchive = { find: () => Promise.resolve(null) };
