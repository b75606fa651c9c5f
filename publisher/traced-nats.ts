/**
 * Wraps the NATS connection of a publisher with tracing: when the log acknowledges a message, each sampled click in it
 * gets a span.
 */
import type { NatsClient, NatsMessage } from '#common/stores/nats.ts';
import { traceOfClick } from '#common/tracing/click-traces.ts';
import { newSpanId, type Tracing } from '#common/tracing/tracing.ts';
import { Trail } from '#common/tracing/trail.ts';
import { withMethods } from '#common/tracing/with-methods.ts';

interface SentMessage {
  readonly subject: string;
  readonly bytes: number;
  readonly clickIds: readonly string[];
  readonly trail: Trail;
}

/** Maximum sampled clicks per message; further ones get no span. */
const clicksMax = 256;
/** Maximum messages without an acknowledgement; the oldest are forgotten. */
const sentMax = 512;

export function tracedNats<T extends NatsClient>(nats: T, tracing: Tracing): T {
  const sent = new Map<string, SentMessage>();
  const methods: Partial<NatsClient> = {
    publish: (subject, bytes, options = {}) => {
      const clickIds =
        options.messageId === undefined
          ? []
          : tracing.clicks.idsIn(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), clicksMax);
      if (clickIds.length > 0 && options.reply !== undefined) {
        sent.set(options.reply, { subject, bytes: bytes.length, clickIds, trail: new Trail(Date.now()) });
        for (const oldest of sent.keys()) {
          if (sent.size <= sentMax) break;
          sent.delete(oldest);
        }
      }
      nats.publish(subject, bytes, options);
    },
    subscribe: (subject, callback, options) => {
      const follow = (message: NatsMessage) => {
        callback(message);
        const of = sent.get(message.subject);
        if (of === undefined) return;
        sent.delete(message.subject);
        addSpans(tracing, of, message);
      };
      return nats.subscribe(subject, follow, options);
    },
  };
  return withMethods(nats, methods as Partial<T>);
}

function addSpans(tracing: Tracing, { subject, bytes, clickIds, trail }: SentMessage, ack: NatsMessage): void {
  const text = ack.status === 0 ? ack.bytes.toString() : '';
  const isStored = text.includes('"seq"') && !text.includes('"error"');
  const endMs = trail.now();
  for (const id of clickIds) {
    const { traceId, spanId: parentId } = traceOfClick(id);
    tracing.add(
      { traceId, spanId: newSpanId(), parentId },
      {
        name: `publish ${subject}`,
        kind: 'producer',
        startMs: trail.startMs,
        endMs,
        attributes: {
          'messaging.system': 'nats',
          'messaging.destination.name': subject,
          'messaging.message.body.size': bytes,
        },
        error: isStored ? '' : 'refused',
      },
    );
  }
}
