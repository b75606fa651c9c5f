/** What is wrong with a fetched association file, for an app with the given ids. */
import { isDeepStrictEqual } from 'node:util';
import { isObject } from '#common/json-object.ts';
import { type OutboundOutcome, outboundFailures } from '#common/outbound-request.ts';

/** Apple's limit. The same limit is used for Google's file. */
export const ASSOCIATION_BYTES_MAX = 131_072;

export const associationProblems = [
  // Nothing was requested.
  ...(['not_configured', 'host_not_verified', 'apple_cdn_off'] as const),
  // There was no answer.
  ...outboundFailures,
  // A phone cannot use the response.
  ...(['redirected', 'status', 'too_large', 'cut_off', 'content_type', 'not_json'] as const),
  // The file is readable, but not the right one for this app.
  ...(['app_missing', 'fingerprint_missing', 'differs'] as const),
] as const;
export type AssociationProblem = (typeof associationProblems)[number];

/** @param expected the file as this installation serves it. */
export type Judge = (found: unknown, expected: string) => AssociationProblem[];

/** Empty if phones accept the file and it is identical to the one that this installation serves. */
export function problemsOf(
  outcome: Exclude<OutboundOutcome, { kind: 'aborted' }>,
  expected: string,
  judge: Judge,
): AssociationProblem[] {
  if (outcome.kind === 'failed') return [outcome.reason];
  const { status, headers, body, isWhole } = outcome;
  if (status >= 300 && status < 400) return ['redirected'];
  if (status !== 200) return ['status'];
  if (!isWhole) return [body.length >= ASSOCIATION_BYTES_MAX ? 'too_large' : 'cut_off'];
  const isJsonType = /^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '');
  const type: AssociationProblem[] = isJsonType ? [] : ['content_type'];
  let found: unknown;
  try {
    found = JSON.parse(body.toString('utf8'));
  } catch {
    return [...type, 'not_json'];
  }
  const problems = judge(found, expected);
  // Recurses no deeper than the expected value, however deep the found one is.
  const isSame = isDeepStrictEqual(JSON.parse(expected), found);
  return [...type, ...problems, ...(problems.length === 0 && !isSame ? ['differs' as const] : [])];
}

interface AppleFile {
  readonly applinks: { readonly details: readonly { readonly appID: string }[] };
}

/** Each entry of `details` names one app in `appID`, or several in `appIDs`. Before iOS 9.2 it was an object by app. */
export const judgeApple: Judge = (found, expected) => {
  const appId = (JSON.parse(expected) as AppleFile).applinks.details[0]?.appID ?? '';
  const details = isObject(found) && isObject(found['applinks']) ? found['applinks']['details'] : undefined;
  const ids = Array.isArray(details)
    ? details.filter(isObject).flatMap(({ appID, appIDs }) => [appID, ...(Array.isArray(appIDs) ? appIDs : [])])
    : Object.keys(isObject(details) ? details : {});
  return ids.includes(appId) ? [] : ['app_missing'];
};

interface AndroidTarget {
  readonly package_name: string;
  readonly sha256_cert_fingerprints: readonly string[];
}

/** An app has all links of a host if a statement with this relation names it. */
const opensLinks = 'delegate_permission/common.handle_all_urls';

export const judgeAndroid: Judge = (found, expected) => {
  const [{ target }] = JSON.parse(expected) as [{ target: AndroidTarget }];
  const statements = Array.isArray(found) ? found.filter(isObject) : [];
  const targets = statements
    .filter(({ relation }) => Array.isArray(relation) && relation.includes(opensLinks))
    .map((statement) => statement['target'])
    .filter(isObject)
    .filter((one) => one['namespace'] === 'android_app' && one['package_name'] === target.package_name);
  if (targets.length === 0) return ['app_missing'];
  const listed = new Set(
    targets.flatMap(({ sha256_cert_fingerprints: all }) => (Array.isArray(all) ? all : [])).map(upperCase),
  );
  return target.sha256_cert_fingerprints.every((one) => listed.has(upperCase(one))) ? [] : ['fingerprint_missing'];
};

function upperCase(value: unknown): string {
  return typeof value === 'string' ? value.toUpperCase() : '';
}
