/** Flattens a string: V8 stores concatenated text as a tree and would traverse it at every write. */
export function inOnePiece(text: string): string {
  return Buffer.from(text).toString();
}
