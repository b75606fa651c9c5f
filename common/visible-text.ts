/** Names must be visible to people: in lists, in mails, in print. */

/** Visible by itself: not a space, control, joiner, filler or mark. U+2800 and U+1D159 are blank symbols. */
const glyph =
  /[^\s\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{M}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\u{1d159}]/u;

/** Whether the text has a visible character. */
export function hasGlyph(text: string): boolean {
  return glyph.test(text);
}
