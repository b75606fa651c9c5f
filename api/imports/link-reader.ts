/** Reads one row of a file as a link of the app, or says which field is invalid. Pure: it does not access any store. */

import { domainToASCII } from 'node:url';
import { UTM_FIELDS } from '#common/campaign-fields.ts';
import { firstCharacters } from '#common/first-characters.ts';
import { storageFaults } from '#common/http/json.ts';
import { bodyValidator } from '#common/http/validation.ts';
import { type NewLink, newLinkBody, newLinkFaults, withDestination } from '#common/links/link-fields.ts';
import { decodedCode, importedCodeFault, lowerCode } from '#common/links/short-code.ts';
import { hostOf } from '#common/links/web-address.ts';
import { hasGlyph } from '#common/visible-text.ts';
import type { BranchLink } from './branch-answer.ts';
import { clicksLeft } from './click-limit.ts';
import { firebaseLink } from './firebase-link.ts';
import type { ImportField } from './import-columns.ts';
import { type CellOf, fault, type ImportedLink, isFault, type ReadOptions, type RowFault } from './import-row.ts';
import { countOf, EARLIEST_MS, isDomainId, isImpossibleDate, isYes, timeOf, wordsOf } from './import-values.ts';

const TITLE_CHARACTERS_MAX = 300;
const OTHER_CODES_MAX = 20;
const noSuchDay = 'is a day that does not exist';
const addresses: ReadonlySet<string> = new Set([
  ...['destination', 'link', 'ios_url', 'android_url', 'ifl', 'afl', 'ofl', 'expired_url', 'og_image_url'],
]);
const checkLink = bodyValidator(newLinkBody);

type Fields = Record<string, unknown>;

export function readRow(cells: readonly string[], options: ReadOptions): ImportedLink | RowFault {
  const cell = cellOf(cells, options);
  const given = () =>
    options.source === 'firebase' ? firebaseLink(cell, options.app) : plainLink(cell, cells, options);
  return unreadable(cells, options) ?? readLink(cell, given, options);
}

/** The URL of a row's link at Branch. */
export function branchUrl(cells: readonly string[], options: ReadOptions): URL | RowFault {
  const cell = cellOf(cells, options);
  const refused = unreadable(cells, options) ?? codesOf(cell, options);
  if (isFault(refused)) return refused;
  const text = cell('short_url').replace(/^(?:https?:)?\/\//i, '');
  return URL.canParse(`https://${text}`)
    ? new URL(`https://${text}`)
    : fault('short_url', 'bad_code', 'is not the URL of a link');
}

/** A row whose link was read from Branch. Fields that Branch does not return are taken from the file. */
export function readBranchRow(
  cells: readonly string[],
  { fields, data }: BranchLink,
  options: ReadOptions,
): ImportedLink | RowFault {
  const inFile = cellOf(cells, options);
  const cell: CellOf = (field) => secured(field, fields[field] ?? '', options) || inFile(field);
  const given = () => ({
    path: cell('path') || '/',
    ...{ ios_url: cell('ios_url'), android_url: cell('android_url'), fallback_url: cell('destination') },
    data: Object.keys(data).length > 0 ? data : null,
  });
  return readLink(cell, given, options);
}

function cellOf(cells: readonly string[], options: ReadOptions): CellOf {
  return (field) => {
    const given = cells[options.layout.columns[field] ?? -1]?.trim() ?? '';
    return secured(field, filled(given), options);
  };
}

/** Databases export an empty value as `\N` or NULL. */
function filled(text: string): string {
  return /^(?:\\N|null)$/i.test(text) ? '' : text;
}

function secured(field: ImportField, text: string, { upgradesHttp }: ReadOptions): string {
  return upgradesHttp && addresses.has(field) ? text.replace(/^http:\/\//i, 'https://') : text;
}

export function unreadable(cells: readonly string[], { layout }: ReadOptions): RowFault | null {
  if (cells.some((text) => text.includes('\ufffd') || text.includes('\0')))
    return fault('row', 'not_text', 'is not UTF-8, or contains NUL');
  const { width = cells.length } = layout;
  // An unquoted separator within a value, such as a comma in a URL, would cut it.
  if (cells.slice(width).every((text) => text.trim() === '')) return null;
  const message = `has ${cells.length} cells, more than the ${width} columns: put values that contain a separator in quotation marks`;
  return fault('row', 'extra_cells', message);
}

function readLink(cell: CellOf, givenBy: () => Fields | RowFault, options: ReadOptions): ImportedLink | RowFault {
  const codes = codesOf(cell, options);
  if (isFault(codes)) return codes;
  const unsupported = unsupportedFeature(cell, options.nowMs);
  if (unsupported) return unsupported;
  const given = givenBy();
  if (isFault(given)) return given;
  const dated = datesOf(cell, options.nowMs);
  if (isFault(dated)) return dated;
  const left = clicksLeft(cell);
  if (left !== null && typeof left === 'object') return left;
  const body = { ...present(sharedFields(cell)), ...present(given), ...present(endOf(dated, left)) };
  return checkedLink(body, { ...codes, created_at: dated.created_at, clicks_before: countOf(cell('clicks')) });
}

/** The link, if its fields are those of a link that can be created. */
export function checkedLink(body: Fields, others: Omit<ImportedLink, 'fields'>): ImportedLink | RowFault {
  const [unstorable] = storageFaults(body);
  // Omits the names of keys, which may be long.
  if (unstorable) return fault(/^\w*/.exec(unstorable.field)?.[0] || 'row', 'invalid', unstorable.message);
  const refused = checkLink(body, newLinkFaults(body));
  const [first] = refused?.errors ?? [];
  if (first) return fault(first.field, 'invalid', first.message);
  // Fields that passed the check above.
  const { path = '/', ...fields } = withDestination(body as NewLink);
  return { ...others, fields: { ...fields, path } };
}

/**
 * When the link expires. max_clicks is at least one, so a link without remaining clicks becomes an expired link, which
 * gets the same response. The expiry is its creation time, so that reading the file again gives the same link.
 */
export function endOf({ created_at, expires_at }: Dates, left: number | null): Fields {
  if (left !== 0) return { expires_at, max_clicks: left };
  return { expires_at: created_at ?? new Date(EARLIEST_MS).toISOString() };
}

export function codesOf(cell: CellOf, { app, hosts }: ReadOptions): { readonly codes: string[] } | RowFault {
  const known = new Set([app.host, ...hosts]);
  const own = cell('short_url') === '' ? cell('code') : cell('short_url');
  const others = wordsOf(cell('other_codes'));
  if (others.length > OTHER_CODES_MAX)
    return fault('other_codes', 'too_many', `has more than ${OTHER_CODES_MAX} codes`);
  const codes: string[] = [];
  const given = [[own, cell('short_url') === '' ? 'code' : 'short_url'], ...others.map((one) => [one, 'other_codes'])];
  for (const [text = '', field = ''] of given) {
    const [host, path] = field === 'code' ? [cell('host'), text] : partsOfUrl(text, field, cell('host'));
    const name = hostOf(host) ?? (isDomainId(host) ? host : domainToASCII(host));
    if (host !== '' && !known.has(name)) {
      // Other codes of the same link may be on other hosts.
      if (field === 'other_codes') continue;
      return fault(field === 'code' ? 'host' : field, 'other_host', otherHost(name || host, app.host));
    }
    const code = decodedCode(path.replace(/^\//, '').replace(/\/$/, ''));
    if (code === null) return fault(field, 'bad_code', 'is not encoded as UTF-8');
    const problem = importedCodeFault(code);
    if (problem !== null) return fault(field, 'bad_code', problem);
    codes.push(app.ignores_case ? lowerCode(code) : code);
  }
  return { codes: [...new Set(codes)] };
}

/** Some files have only the number of a domain: `hosts` names those whose rows are of the app. */
function otherHost(name: string, own: string): string {
  return name.includes('.')
    ? `is on ${name}, not on ${own}`
    : `is of the domain ${name}: name it in hosts if its links are of ${own}`;
}

/** Host and path of a short URL, which some services write without a scheme. A bare word is a code. */
function partsOfUrl(text: string, field: string, host: string): [host: string, path: string] {
  if (field === 'other_codes' && !/[./]/.test(text)) return [host, text];
  const [, name = '', path = ''] = /^(?:https?:)?(?:\/\/)?([^/?#]*)([^?#]*)/i.exec(text) ?? [];
  return [name.replace(/:\d+$/, ''), path];
}

/** Features of the link that are not supported here. Without them, it would lead to the wrong destination. */
function unsupportedFeature(cell: CellOf, nowMs: number): RowFault | null {
  if (cell('password') !== '' && isYes(cell('password')) !== false)
    return fault('password', 'password', 'links with a password cannot be imported');
  if (!/^(\{\s*\}|\[\s*\]|null|false|0)?$/i.test(cell('targeting')))
    return fault(
      'targeting',
      'targeting',
      'links with conditional destinations cannot be imported: create them with rules',
    );
  if (isImpossibleDate(cell('starts_at'))) return fault('starts_at', 'bad_time', noSuchDay);
  const starts = timeOf(cell('starts_at'));
  if (starts !== null && starts > nowMs) return fault('starts_at', 'not_yet', 'the link is not active yet');
  return null;
}

interface Dates {
  readonly created_at: string | null;
  readonly expires_at: string | null;
}

export function datesOf(cell: CellOf, nowMs: number): Dates | RowFault {
  const times: Partial<Record<'created_at' | 'expires_at', string>> = {};
  for (const field of ['created_at', 'expires_at'] as const) {
    if (cell(field) === '') continue;
    if (isImpossibleDate(cell(field))) return fault(field, 'bad_time', noSuchDay);
    const ms = timeOf(cell(field));
    if (ms === null) return fault(field, 'bad_time', 'is an ambiguous time: use ISO 8601');
    if (field === 'created_at' && ms > nowMs) return fault(field, 'bad_time', 'is in the future');
    times[field] = new Date(ms).toISOString();
  }
  return { created_at: times.created_at ?? null, expires_at: times.expires_at ?? null };
}

function sharedFields(cell: CellOf): Fields {
  const tags = [...new Set(wordsOf(cell('tags')))];
  const archived = isYes(cell('archived'));
  return {
    title: hasGlyph(cell('title')) ? firstCharacters(cell('title'), TITLE_CHARACTERS_MAX) : '',
    tags: tags.length > 0 ? tags : null,
    archived: archived === true ? true : null,
    campaign: cell('campaign'),
    external_id: cell('external_id'),
    expired_url: cell('expired_url'),
    og_title: cell('og_title'),
    og_description: cell('og_description'),
    og_image_url: cell('og_image_url'),
    ...Object.fromEntries(UTM_FIELDS.map((name) => [name, cell(name)])),
  };
}

function plainLink(cell: CellOf, cells: readonly string[], { source, layout }: ReadOptions): Fields | RowFault {
  if (cell('destination') === '') return fault('destination', 'no_destination', 'is empty');
  const link = {
    url: cell('destination'),
    path: cell('path'),
    ios_url: cell('ios_url'),
    android_url: cell('android_url'),
  };
  // Branch passes all other fields of a link to the app.
  if (source !== 'branch') return link;
  const data = Object.entries(layout.others).map(([at, name]) => [name, filled(cells[Number(at)]?.trim() ?? '')]);
  const kept = data.filter(([, text]) => text !== '');
  return kept.length > 0 ? { ...link, data: Object.fromEntries(kept) } : link;
}

export function present(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== '' && value !== null && value !== undefined),
  );
}
