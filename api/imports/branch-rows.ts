/** Rows of a file that lists Branch links: each row is filled from Branch's API. */
import { isDeepStrictEqual } from 'node:util';
import { SECOND_MS } from '#common/durations.ts';
import type { BranchAnswer } from './branch-links.ts';
import { CsvFault, type CsvRecord } from './csv-records.ts';
import { type BranchProgress, branchKeyContext, type UnansweredRows } from './import.ts';
import { fault, type ImportedLink, isFault, type ReadOptions, type RowFault } from './import-row.ts';
import type { ImportRun } from './import-run.ts';
import { branchUrl, readBranchRow } from './link-reader.ts';

/** After this many rounds, a link that Branch never answers no longer blocks the others. */
const roundsMax = 5;
/** Fewer than are requested at a time, so that rows are requested in the same round. */
const signsMax = 4;

/** Branch is currently not answering. */
export class BranchSilent extends Error {}

interface BranchRows {
  /** Links of the first records, up to the first unanswered one. */
  readonly links: readonly (ImportedLink | RowFault)[];
  /** Why a record is unanswered; null if all were answered. */
  readonly silence: string | null;
  /** State for the next round; absent if it did not change. */
  readonly progress?: BranchProgress;
}

const sealedKey = 'SELECT branch_key_ciphertext AS sealed FROM imports WHERE organization_id = ANY ($1) AND id = $2';

export async function branchRows(
  run: ImportRun,
  records: readonly CsvRecord[],
  options: ReadOptions,
): Promise<BranchRows> {
  const { branch, signal } = run;
  if (branch === undefined) throw new BranchSilent('this process does not read links from Branch');
  const [{ sealed = null } = {}] = await run.within((tenant) =>
    tenant.query<{ sealed: string | null }>(sealedKey, [run.row.id]),
  );
  if (sealed === null) throw new CsvFault('The Branch key was deleted. Create a new import.');
  const key = branch.encryption.decrypt(sealed, branchKeyContext(run.row.id));
  const asked = records.map(({ cells }) => run.readOrReport(() => branchUrl(cells, options)));
  const urls = asked.map((one) => (isFault(one) ? null : one));
  const before: BranchProgress = run.row.layout ?? {};
  // Checked first, because no other links are requested once one stays unanswered.
  const signs = signsOf(urls, before, run.nowMs);
  const all = await branch.links.ask({ key, urls: [...signs, ...urls], signal });
  const answers = all.slice(signs.length);
  const sign = signs[all.slice(0, signs.length).findIndex(isAnswer)];
  const unanswered = signal.aborted ? undefined : unansweredRows(run.row, answers, sign !== undefined);
  const givenUp = unanswered?.rounds === roundsMax ? unanswered.rows : [];
  const links: (ImportedLink | RowFault)[] = [];
  let refusal = '';
  let silence: string | null = null;
  for (const [at, { cells }] of records.entries()) {
    const [url, answer] = [asked[at], answers[at]];
    if (url !== undefined && isFault(url)) links.push(url);
    else if (answer?.kind === 'link') links.push(run.readOrReport(() => readBranchRow(cells, answer.link, options)));
    else if (answer?.kind === 'refused') {
      refusal = answer.message;
      links.push(fault('short_url', 'not_read', `Branch returned no link for this URL: ${refusal}`));
    } else if (answer?.kind === 'unanswered' && givenUp.includes(run.row.rows_read + 1 + at)) {
      const message = `Branch did not respond in ${roundsMax} attempts: ${answer.message}`;
      links.push(fault('short_url', 'not_read', message));
    } else {
      silence = answer?.message ?? 'not asked';
      break;
    }
  }
  // Most likely the key belongs to another app, and every other row would be refused too.
  if (silence === null && run.row.rows_read === 0 && refusal !== '' && !answers.some((one) => one?.kind === 'link'))
    throw new CsvFault(`With this key, Branch returned none of the first ${records.length} links: ${refusal}`);
  const answered = urls[answers.slice(0, links.length).findLastIndex(isAnswer)]?.href ?? before.answered ?? sign?.href;
  const progress = {
    ...(answered === undefined ? {} : { answered }),
    ...(unanswered === undefined || givenUp.length > 0 ? {} : { unanswered }),
  };
  const isAsBefore = isDeepStrictEqual(progress, progressIn(before));
  return { links, silence, ...(isAsBefore ? {} : { progress }) };
}

const isAnswer = (one: BranchAnswer | null) => one !== null && one.kind !== 'unanswered';

function progressIn({ answered, unanswered }: BranchProgress): BranchProgress {
  return { ...(answered === undefined ? {} : { answered }), ...(unanswered === undefined ? {} : { unanswered }) };
}

/**
 * Probes used after a round in which nothing after the unanswered row was answered: a link that was answered before,
 * otherwise some links of this chunk. They change every second, because any of them may be dead too.
 */
function signsOf(urls: readonly (URL | null)[], { answered, unanswered }: BranchProgress, nowMs: number): URL[] {
  if (unanswered?.is_last !== true) return [];
  if (answered !== undefined) return [new URL(answered)];
  const known = urls.filter((url) => url !== null);
  const first = Math.floor(nowMs / SECOND_MS);
  const step = Math.max(1, Math.floor(known.length / signsMax));
  return known.length === 0
    ? []
    : Array.from(
        { length: Math.min(signsMax, known.length) },
        (_, at) => known[(first + at * step) % known.length] as URL,
      );
}

/**
 * A round counts only if Branch answered something. Otherwise Branch itself may be down.
 * @returns undefined if no row is unanswered.
 */
function unansweredRows(
  { rows_read, layout }: ImportRun['row'],
  answers: readonly (BranchAnswer | null)[],
  hasSign: boolean,
): UnansweredRows | undefined {
  const rows = answers.flatMap((one, at) => (one?.kind === 'unanswered' ? [rows_read + 1 + at] : []));
  const [first] = rows;
  if (first === undefined) return undefined;
  const is_last = !answers.slice(first - rows_read).some(isAnswer);
  const counts = hasSign || answers.some(isAnswer) ? 1 : 0;
  const before = layout?.unanswered;
  if (!before?.rows.includes(first)) return { rows, rounds: counts, is_last };
  if (counts === 0) return { ...before, is_last };
  return { rows: rows.filter((one) => before.rows.includes(one)), rounds: before.rounds + 1, is_last };
}
