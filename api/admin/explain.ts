/** `npm run admin -- explain`: why a short link leads a visitor where it does. */
import type { Command } from 'commander';
import { readExplainedLink } from '#api/explained-link.ts';
import { explainLink } from '#api/link-explanation.ts';
import { linkWithCode } from '#common/links/link.ts';
import { codeOfPath, pathOfCode } from '#common/links/short-code.ts';
import type { AdminParts } from './accounts.ts';
import type { AdminContext } from './admin-context.ts';
import { AdminError } from './questions.ts';

interface ExplainOptions {
  readonly userAgent: string;
  readonly language?: string;
  readonly installed?: boolean;
}

export function addExplainCommand(program: Command, context: AdminContext): void {
  program
    .command('explain')
    .description('Explain where a short link leads a visitor, and why. Nothing is recorded.')
    .argument('<url>', 'the short link')
    .requiredOption('--user-agent <text>', "the visitor's user agent")
    .option('--language <text>', 'the Accept-Language header')
    .option('--installed', 'the app is on the device')
    .option('--no-installed', 'the app is not on the device')
    .action(async (url: string, { userAgent, language, installed }: ExplainOptions) => {
      const visit = {
        user_agent: userAgent,
        ...(language === undefined ? {} : { language }),
        ...(installed === undefined ? {} : { installed }),
      };
      for (const line of await explainUrl(context.parts(), url, visit)) context.print(line);
    });
}

const linkOfUrl = `SELECT h.link_id AS id, a.organization_id FROM apps a CROSS JOIN ${linkWithCode('$2')}
  WHERE a.host = $1 AND a.deleted_at IS NULL ORDER BY a.host_verified_at IS NULL, a.id LIMIT 1`;

/** @throws AdminError if there is no such link. */
async function explainUrl(
  { db, clock }: AdminParts,
  address: string,
  visit: Parameters<typeof explainLink>[1],
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
  if (explained === null) throw new AdminError(`there is no link ${hostname}${pathname}: it is answered with 404`);
  const shortUrl = (host: string, code: string) => `https://${host}${pathOfCode(code)}`;
  const { status, headers, sentences } = explainLink(
    explained,
    { ...visit, query: search.slice(1) },
    clock(),
    shortUrl,
  );
  return [...sentences, '', `HTTP ${status}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)];
}
