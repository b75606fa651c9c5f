/** Names must be visible to people: in lists, in mails, in print. */

/** Visible by itself: not a space, control, joiner, filler or mark. U+2800 and U+1D159 are blank symbols. */
const glyph =
  /[^\s\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{M}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\u{1d159}]/u;

/** Whether the text has a visible character. */
export function hasGlyph(text: string): boolean {
  return glyph.test(text);
}

/**
 * Ends a line, turns the direction of what follows, or hides in a text, so that a name looks like another one. The two
 * joiners stay, which emoji and some scripts need; half a surrogate pair is no character.
 */
const unfit = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u00ad\u180e\u200b\u2060-\u2064\ufeff]/u;

/** Whether the text is one line that reads as it is written. */
export function isPlainLine(text: string): boolean {
  return !unfit.test(text);
}

/** A name from elsewhere, without what no name may have; empty if nothing is left to see. */
export function plainName(text: string): string {
  const line = text
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(new RegExp(unfit, 'gu'), '')
    .trim();
  return hasGlyph(line) ? line : '';
}
