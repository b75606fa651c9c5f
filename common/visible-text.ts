/** Names must be visible to people: in lists, in mails, in print. */

/** Visible by itself: not a space, control, joiner, filler or mark. U+2800 and U+1D159 are blank symbols. */
const glyph =
  /[^\s\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{M}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\u{1d159}]/u;

/** Whether the text has a visible character. */
export function hasGlyph(text: string): boolean {
  return glyph.test(text);
}

/**
 * Ends a line, turns the direction of what follows, or hides in a text, so that a name looks like another one; half a
 * surrogate pair is no character, and a pile of marks covers the lines around it.
 */
const unfit =
  /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u180e\u2800\ufff9-\ufffb\u{1d159}]|\p{M}{9,}/u;
/** What emoji and some scripts need: the two joiners, the selectors of emoji and of Han variants, and flags of regions. */
const needed =
  /\u200c|\u200d|\ufe0e|\ufe0f|(?<=\p{Script=Han})[\u{e0100}-\u{e01ef}]|(?<=\u{1f3f4})[\u{e0061}-\u{e007a}]{2,6}\u{e007f}/gu;

const keptOrUnfit = new RegExp(`(${needed.source})|${unfit.source}`, 'gu');

/** Whether the text is one line that reads as it is written. */
export function isPlainLine(text: string): boolean {
  return !unfit.test(text.replaceAll(needed, ''));
}

/** A name from elsewhere, without what no name may have; empty if nothing is left to see. */
export function plainName(text: string): string {
  const line = text
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(keptOrUnfit, '$1')
    .trim();
  return hasGlyph(line) ? line : '';
}
