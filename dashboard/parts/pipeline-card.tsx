/**
 * The state of the pipeline from tap to statistics, as far as the API knows it, in words for people who do not run
 * servers.
 */
import type { Answer } from '#dashboard/api.ts';
import { share, whole } from '#dashboard/format.ts';
import { language, type TextKey, t } from '#dashboard/texts/text.ts';

type Trust = Answer<'GET /trust'>;

/** Above this fill level, records arrive faster than they are stored; below it, stored records are kept in the log. */
const fillMax = 0.8;
const lagMax = 60;
const GIGABYTE = 1_000_000_000;

function sizeText(bytes: number): string {
  const [unit, count] = bytes >= GIGABYTE ? (['gigabyte', GIGABYTE] as const) : (['megabyte', 1_000_000] as const);
  return new Intl.NumberFormat(language, { style: 'unit', unit, maximumFractionDigits: 1 }).format(bytes / count);
}

interface Fact {
  readonly name: TextKey;
  readonly text: string;
  /** Null: not known. */
  readonly isGood: boolean | null;
}

export function PipelineCard({ pipeline, lag_seconds }: Pick<Trust, 'pipeline' | 'lag_seconds'>) {
  return (
    <section className="card">
      <header>
        <h2>{t('way.title')}</h2>
      </header>
      <div className="scroll">
        <table>
          <tbody>
            {factsOf(pipeline, lag_seconds).map(({ name, text, isGood }) => (
              <tr key={name}>
                <th scope="row">{t(name)}</th>
                <td>
                  <span className={isGood === null ? 'tag' : isGood ? 'tag good' : 'tag warn'}>
                    {t(isGood === null ? 'way.unknown' : isGood ? 'trust.good' : 'trust.look')}
                  </span>
                </td>
                <td className="wide">{text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function factsOf({ machines, storing, log }: Trust['pipeline'], lag: number | null): readonly Fact[] {
  return [
    machinesFact(machines),
    {
      name: 'way.waiting',
      text: lag === null ? t('way.machines_none') : t('way.waiting_text', { count: whole(Math.ceil(lag)) }),
      isGood: lag === null ? null : lag <= lagMax,
    },
    ...logFacts(log),
    {
      name: 'way.storing',
      text:
        storing.parts === 0
          ? t('way.storing_none')
          : t('way.storing_text', { owned: whole(storing.owned), parts: whole(storing.parts) }),
      isGood: storing.parts === 0 ? null : storing.owned === storing.parts,
    },
  ];
}

function machinesFact({ count, silent }: Trust['pipeline']['machines']): Fact {
  const name = 'way.machines';
  if (count === 0) return { name, text: t('way.machines_none'), isGood: null };
  if (silent > 0) {
    const values = { silent: whole(silent), count: whole(count) };
    return { name, text: t('way.machines_silent', values), isGood: false };
  }
  const text = count === 1 ? t('way.machines_one') : t('way.machines_good', { count: whole(count) });
  return { name, text, isGood: true };
}

function logFacts(log: Trust['pipeline']['log']): readonly Fact[] {
  if (log === null) {
    const unknown = { text: t('way.log_unknown'), isGood: null };
    return [
      { name: 'way.log', ...unknown },
      { name: 'way.copies', ...unknown },
    ];
  }
  const fill = log.bytes / log.bytes_max;
  const size = { share: share(fill), bytes: sizeText(log.bytes), max: sizeText(log.bytes_max) };
  const copies = { current: whole(log.copies_current), count: whole(log.copies) };
  return [
    { name: 'way.log', text: t('way.log_text', size), isGood: fill <= fillMax },
    {
      name: 'way.copies',
      text: log.copies === 1 ? t('way.copies_one') : t('way.copies_text', copies),
      isGood: log.copies_current >= log.copies,
    },
  ];
}
