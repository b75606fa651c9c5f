/** The first characters of a text: an emoji or another character of two UTF-16 units is never cut in half. */
export function firstCharacters(text: string, max: number): string {
  return text.length <= max ? text : [...text].slice(0, max).join('');
}
