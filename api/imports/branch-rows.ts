/** Rows of a file that lists links of Branch: each becomes what Branch's API says of its link. */

import type { BranchAnswer } from './branch-links.ts';
import { CsvFault, type CsvRecord } from './csv-records.ts';
import { branchKeyContext, type UnansweredRows } from './import.ts';
import { fault, type ImportedLink, isFault, type ReadOptions, type RowFault } from './import-row.ts';
import type { ImportRun } from './import-run.ts';
import { branchUrl, readBranchRow } from './link-reader.ts';

/** Then a link that is never answered holds the others no longer. */
const roundsMax = 5;

/** Branch answers nothing at the moment. */
export class BranchSilent extends Error {}

interface BranchRows {
  /** Of the first records, up to the one about which there is no answer. */
  readonly links: readonly (ImportedLink | RowFault)[];
  /** Why there is none; null if all were answered. */
  readonly silence: string | null;
  /** To be remembered for the next round. */
  readonly unanswered?: UnansweredRows;
}

const sealedKey = 'SELECT branch_key_ciphertext AS sealed FROM imports WHERE organization_id = ANY ($1) AND id = $2';

export async function branchRows(
  run: ImportRun,
  records: readonly CsvRecord[],
  options: ReadOptions,
): Promise<BranchRows> {
  const { branch, signal } = run;
  if (branch === undefined) throw new BranchSilent('this process does not ask Branch');
  const [{ sealed = null } = {}] = await run.within((tenant) =>
    tenant.query<{ sealed: string | null }>(sealedKey, [run.row.id]),
  );
  if (sealed === null) throw new CsvFault('The Branch key is gone. Begin a new import.');
  const key = branch.encryption.decrypt(sealed, branchKeyContext(run.row.id));
  const asked = records.map(({ cells }) => branchUrl(cells, options));
  const answers = await branch.links.ask({ key, urls: asked.map((one) => (isFault(one) ? null : one)), signal });
  const unanswered = signal.aborted ? null : unansweredRows(run, answers);
  const givenUp = unanswered?.rounds === roundsMax ? unanswered.rows : [];
  const links: (ImportedLink | RowFault)[] = [];
  let refusal = '';
  for (const [at, { cells }] of records.entries()) {
    const [url, answer] = [asked[at], answers[at]];
    if (url !== undefined && isFault(url)) links.push(url);
    else if (answer?.kind === 'link') links.push(readBranchRow(cells, answer.link, options));
    else if (answer?.kind === 'refused') {
      refusal = answer.message;
      links.push(fault('short_url', 'not_read', `Branch does not describe it: ${refusal}`));
    } else if (answer?.kind === 'unanswered' && givenUp.includes(run.row.rows_read + 1 + at)) {
      const message = `Branch has not answered in ${roundsMax} rounds: ${answer.message}`;
      links.push(fault('short_url', 'not_read', message));
    } else {
      const silence = answer?.message ?? 'not asked';
      if (givenUp.length > 0) return { links, silence };
      const rows = { links: links.slice(0, storedBefore(at, answers)), silence };
      return unanswered === null ? rows : { ...rows, unanswered };
    }
  }
  // Most likely the key is that of another app, and every other row would be refused too.
  if (run.row.rows_read === 0 && refusal !== '' && !answers.some((one) => one?.kind === 'link'))
    throw new CsvFault(`Branch describes none of the first ${records.length} links with this key: ${refusal}`);
  return { links, silence: null };
}

const isAnswer = (one: BranchAnswer | null) => one !== null && one.kind !== 'unanswered';

/** Null if no other row was answered: then it may be Branch that is silent. */
function unansweredRows({ row }: ImportRun, answers: readonly (BranchAnswer | null)[]): UnansweredRows | null {
  const rows = answers.flatMap((one, at) => (one?.kind === 'unanswered' ? [row.rows_read + 1 + at] : []));
  const [first] = rows;
  if (first === undefined || !answers.some(isAnswer)) return null;
  const before = row.layout?.unanswered;
  return before?.rows.includes(first)
    ? { rows: rows.filter((one) => before.rows.includes(one)), rounds: before.rounds + 1 }
    : { rows, rounds: 1 };
}

/** If nothing behind the unanswered row is answered, the answered one before it is asked again with it: it shows that Branch answers. */
function storedBefore(unanswered: number, answers: readonly (BranchAnswer | null)[]): number {
  const before = answers.slice(0, unanswered).findLastIndex(isAnswer);
  return answers.slice(unanswered).some(isAnswer) || before === -1 ? unanswered : before;
}
