/** Settings that name several servers: URLs with commas between them. A comma within a URL is written %2C. */
export function urlsIn(text: string): string[] {
  return text
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '');
}
