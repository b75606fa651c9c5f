/** Reads Accept-Language headers (RFC 9110 section 12.5.4). */

/** The languages that a header accepts, the most preferred first; of equal ones, in its order. @param max ranges that are read. */
export function acceptedLanguages(header: string, max: number): string[] {
  // Most headers have their languages in that order, or only one.
  const ranges = header.split(',', max).map((range) => {
    const [tag = '', ...parameters] = range.split(';').map((part) => part.trim());
    const weight = parameters.find((one) => /^q=/i.test(one))?.slice(2) ?? '1';
    return { tag, weight: Number(weight) };
  });
  const accepted = ranges.filter(({ tag, weight }) => tag !== '' && tag !== '*' && weight > 0);
  return accepted.sort((a, b) => b.weight - a.weight).map(({ tag }) => tag);
}
