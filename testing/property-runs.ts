import { inject } from 'vitest';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Whether this is `npm test`, and not `npm run test:all`. */
    isQuick: boolean;
  }
}

/** How many values a property is tried with: in `npm test` an eighth of them, other ones each time. */
export function propertyRuns(inAll: number): number {
  return inject('isQuick') ? Math.ceil(inAll / 8) : inAll;
}
