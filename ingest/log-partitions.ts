/** The partitions that have messages in the log, whatever the current LOG_PARTITIONS. */
import { isObject } from '#common/json-object.ts';
import type { NatsClient } from '#common/stores/nats.ts';

/** Maximum value of LOG_PARTITIONS. */
const partitionsMax = 64;

/** Null if the log does not answer. */
export async function partitionsInLog(nats: NatsClient): Promise<readonly number[] | null> {
  const question = Buffer.from(JSON.stringify({ subjects_filter: '>' }));
  const message = await nats.request(nats.names.api('STREAM.INFO'), question);
  if (message === undefined || message.status !== 0) return null;
  const answer: unknown = JSON.parse(message.bytes.toString());
  if (!isObject(answer) || !isObject(answer.state)) return null;
  const subjects = isObject(answer.state.subjects) ? Object.keys(answer.state.subjects) : [];
  const partitions = subjects.map((subject) => Number(subject.split('.').at(-1)));
  return [...new Set(partitions.filter((partition) => Number.isInteger(partition) && partition < partitionsMax))];
}
