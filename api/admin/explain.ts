/** `npm run admin -- explain`: explains where a short link leads a visitor, and why. */
import type { Command } from 'commander';
import { readExplainedLink } from '#api/explained-link.ts';
import { explainLink } from '#api/link-explanation.ts';
import { linkWithCode } from '#common/links/link.ts';
import { codeOfPath, pathOfCode } from '#common/links/short-code.ts';
import { isStorableTime } from '#common/storable-time.ts';
import type { AdminParts } from './accounts.ts';
import type { AdminContext } from './admin-context.ts';
import { AdminError } from './questions.ts';

interface ExplainOptions {
  readonly userAgent: string;
  readonly language?: string;
  readonly installed?: boolean;
  readonly country?: string;
  readonly ip?: string;
  readonly at?: string;
}

export function addExplainCommand(program: Command, context: AdminContext): void {
  program
    .command('explain')
    .description('Explain where a short link leads a visitor, and why. Nothing is recorded.')
    .argument('<url>', 'the short link')
    .requiredOption('--user-agent <text>', "the visitor's user agent")
    .option('--language <text>', 'the Accept-Language header')
    .option('--country <code>', 'the country of the address, such as DE, for rules by country')
    .option('--ip <address>', 'the address, for variants')
    .option('--at <time>', 'the time of the visit in ISO 8601 (default: now)')
    .option('--installed', 'the app is on the device')
    .option('--no-installed', 'the app is not on the device')
    .action(async (url: string, { userAgent, at, ...others }: ExplainOptions) => {
      if (at !== undefined && !isStorableTime(at)) throw new AdminError(`${at} is not a time: write 2026-01-31T09:00Z`);
      const parts = context.parts();
      const nowMs = at === undefined ? parts.clock() : Date.parse(at);
      for (const line of await explainUrl(parts, url, { user_agent: userAgent, ...others }, nowMs)) context.print(line);
    });
}

const linkOfUrl = `SELECT h.link_id AS id, a.organization_id FROM apps a CROSS JOIN ${linkWithCode('$2')}
  WHERE a.host = $1 AND a.deleted_at IS NULL ORDER BY a.host_verified_at IS NULL, a.id LIMIT 1`;

/** @throws AdminError if there is no such link. */
async function explainUrl(
  { db }: AdminParts,
  address: string,
  visit: Parameters<typeof explainLink>[1],
  nowMs: number,
): Promise<string[]> {
  const text = /^https?:\/\//i.test(address) ? address : `https://${address}`;
  if (!URL.canParse(text)) throw new AdminError(`${address} is not a URL`);
  const { hostname, pathname, search } = new URL(text);
  const found = await db.query<{ id: string; organization_id: string }>(linkOfUrl, [
    hostname,
    codeOfPath(pathname) ?? '',
  ]);
  const [link] = found;
  const explained = link
    ? await readExplainedLink((sql, values) => db.query(sql, [[link.organization_id], ...values]), link.id)
    : null;
  if (explained === null) throw new AdminError(`there is no link ${hostname}${pathname}: visitors get a 404`);
  const shortUrl = (host: string, code: string) => `https://${host}${pathOfCode(code)}`;
  const { status, headers, sentences } = explainLink(explained, { ...visit, query: search.slice(1) }, nowMs, shortUrl);
  return [...sentences, '', `HTTP ${status}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)];
}
