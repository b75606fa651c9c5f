/** Names that people must be able to see: in lists, in mails, on printed paper. */

/** Drawn by itself: no space, control, joiner, filler or mark. U+2800 and U+1D159 are symbols that are blank. */
const glyph =
  /[^\s\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{M}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\u{1d159}]/u;

/** Whether the text has a character that is drawn. */
export function hasGlyph(text: string): boolean {
  return glyph.test(text);
}
