/** Retries repeatable requests while the API is busy, respecting Retry-After. */
import { ApiFailure } from './api.ts';

const triesMax = 4;
const pauseMaxMs = 60_000;

export async function withRetries<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (error) {
      const isBusy = error instanceof ApiFailure && (error.status === 429 || error.status >= 500);
      if (!isBusy || tries === triesMax) throw error;
      const pauseMs = Math.min((error.retryAfterSeconds ?? tries) * 1_000, pauseMaxMs);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
