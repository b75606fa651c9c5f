export type Values = Readonly<Record<string, string | number>>;

/** Fills placeholders: `{count} links`, or `{count} {count|link|links}` where the value may be one. */
export function filled(text: string, values: Values): string {
  return text.replaceAll(/\{(\w+)(?:\|([^|{}]*)\|([^|{}]*))?\}/g, (_, name: string, one?: string, many?: string) => {
    const value = String(values[name] ?? '');
    if (one === undefined) return value;
    return value === '1' ? one : (many ?? '');
  });
}
