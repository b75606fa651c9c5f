/**
 * Derives how an old service answers unknown codes from its responses to made-up codes. URL parts in which those differ
 * (the code in any form, a random number, a time) are ignored; a response whose other parts are equal means that the
 * code does not exist.
 */
import type { UnlearnedReason } from './old-provider.ts';

export type ResponsePattern =
  | { readonly kind: 'no_redirect' }
  | { readonly kind: 'redirect'; readonly parts: UrlParts }
  /** The responses differ in more than values, so nothing can be compared with them. */
  | { readonly kind: 'differs' };

/** Null: any value. */
type Parts = readonly (string | null)[];

interface UrlParts {
  readonly origin: string;
  readonly path: Parts;
  /** Names, values and the fragment. */
  readonly rest: Parts;
}

type Answer =
  | { readonly kind: 'location'; readonly url: URL }
  | { readonly kind: 'unlearned'; readonly reason: UnlearnedReason };

export function patternOf(answer: Answer): ResponsePattern {
  return answer.kind === 'location' ? { kind: 'redirect', parts: partsOf(answer.url) } : { kind: 'no_redirect' };
}

/** The common parts of two patterns. */
export function commonPattern(one: ResponsePattern, other: ResponsePattern): ResponsePattern {
  if (one.kind !== 'redirect' || other.kind !== 'redirect') return one.kind === other.kind ? one : { kind: 'differs' };
  const [a, b] = [one.parts, other.parts];
  if (a.origin !== b.origin || a.path.length !== b.path.length || a.rest.length !== b.rest.length)
    return { kind: 'differs' };
  const common = (those: Parts, these: Parts) => those.map((part, at) => (part === these[at] ? part : null));
  return {
    kind: 'redirect',
    parts: { origin: a.origin, path: common(a.path, b.path), rest: common(a.rest, b.rest) },
  };
}

/** Whether the response matches that for codes that do not exist. */
export function matchesPattern(usual: ResponsePattern, url: URL, code: string): boolean {
  if (usual.kind !== 'redirect') return false;
  const { origin, path, rest } = partsOf(url);
  const { parts } = usual;
  return origin === parts.origin && fits(parts.rest, rest) && fitsPath(parts.path, path, code.split('/').length);
}

function partsOf(url: URL): UrlParts {
  return {
    origin: `${url.protocol}//${url.host}`,
    path: url.pathname.split('/').slice(1),
    rest: [...[...url.searchParams].flat(), url.hash],
  };
}

function fits(usual: Parts, given: Parts): boolean {
  return usual.length === given.length && usual.every((part, at) => part === null || part === given[at]);
}

/** A made-up code is one path segment; the requested code may have several. */
function fitsPath(usual: Parts, given: Parts, segmentsOfCode: number): boolean {
  const more = given.length - usual.length;
  if (more === 0) return fits(usual, given);
  if (more < 0 || more >= segmentsOfCode) return false;
  return usual.some((part, at) => part === null && fits(usual, given.toSpliced(at, more + 1, null)));
}
