/**
 * The size of a run: FAULTS_SCALE (1 is the normal size, 0.2 a fifth of the repetitions) and FAULTS_SEED (random if
 * absent, and printed).
 */
const scale = Number(process.env['FAULTS_SCALE'] ?? 1);
export const seed = Number(process.env['FAULTS_SEED'] ?? Date.now() % 1_000_000_000);

/** The scaled number of repetitions, at least one. */
export function times(atFullSize: number): number {
  return Math.max(1, Math.round(atFullSize * scale));
}

/** The size in the environment variable, or else the scaled size. */
export function sized(setting: 'FAULTS_EVENTS' | 'FAULTS_REQUESTS', atFullSize: number): number {
  const given = Number(process.env[setting] ?? 0);
  return given > 0 ? Math.round(given) : times(atFullSize);
}

export const nothingWrong = { lost: 0, duplicated: 0, phantom: 0, rollup_diff: 0 };
