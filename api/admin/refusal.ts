/** Why a command did nothing. */
export interface Refused {
  readonly kind: 'refused';
  readonly message: string;
}

export const refused = (message: string): Refused => ({ kind: 'refused', message });
