/**
 * What a publisher says about a message besides its frames: its own time of sending. It shares its clock with the edges
 * whose journals it reads, so ingest learns from it how old a frame is, whatever that clock shows.
 */
export const sendingHeader = 'Signpost-Sent';

export interface Sending {
  /** The clock of the publisher's machine, epoch ms. */
  readonly sentAt: number;
  /**
   * The frames were written at most this long ago, because the publisher saw their file appear; infinite if it was there
   * before the publisher. Not measured by the clock, which may have jumped in between.
   */
  readonly ageMax: number;
}

export function encodeSending({ sentAt, ageMax }: Sending): string {
  return Number.isFinite(ageMax) ? `${sentAt} ${Math.ceil(ageMax)}` : String(sentAt);
}

/** @returns `undefined` if the header is absent or malformed. */
export function decodeSending(header: string): Sending | undefined {
  const found = /^(-?\d{1,16})(?: (\d{1,16}))?$/.exec(header);
  if (found === null) return undefined;
  return { sentAt: Number(found[1]), ageMax: found[2] === undefined ? Number.POSITIVE_INFINITY : Number(found[2]) };
}
