/** Settings with several servers: URLs separated by commas. A comma within a URL is written %2C. */
export function urlsIn(text: string): string[] {
  return text
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '');
}
