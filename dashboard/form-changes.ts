/** What a form sends, and what it shows, if someone else may change the same thing while it is open. */

type Fields = Readonly<Record<string, unknown>>;

/** The fields of `after` that differ from those of `before`, also within objects. The others are not sent. */
export function changedFields<Body extends object>(after: Body, before: Body): Partial<Body> {
  const changes = Object.entries(after).flatMap(([name, value]) => {
    const old = (before as Fields)[name];
    if (isSame(value, old)) return [];
    return [[name, isFields(value) && isFields(old) ? changedFields(value, old) : value]];
  });
  return Object.fromEntries(changes) as Partial<Body>;
}

/** The draft when newer values are known: they replace fields that the user has not changed since `before`. */
export function renewed<Draft extends object>(draft: Draft, before: Draft, newest: Draft): Draft {
  const fields = Object.entries(draft).map(([name, value]) => [
    name,
    isSame(value, (before as Fields)[name]) ? (newest as Fields)[name] : value,
  ]);
  return Object.fromEntries(fields) as Draft;
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
