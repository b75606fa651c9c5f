/** For tests of the live feed: a log for writing records, and clients that read a stream. */
import { utmFrom } from '#common/campaign-fields.ts';
import { newId } from '#common/ids.ts';
import { clickJson } from '#common/log/click-line.ts';
import { eventJson, eventPrefix } from '#common/log/event-record.ts';
import { encodeFrame, frameHeaderBytes } from '#common/log/frame.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { ensureLogStream } from '#common/log/log-stream.ts';
import type { RecordKind } from '#common/log/record.ts';
import { Nats } from '#common/stores/nats.ts';

export const agent =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 Version/17.4 Mobile/15E148 Safari/604.1';

export interface Place {
  readonly organization_id: string;
  readonly app_id: string;
  readonly link_id: string;
}

export function clickOf(place: Place, more: { click_id?: string; user_agent?: string; query?: string } = {}): string {
  return clickJson({
    ...place,
    click_id: newId('clk', Date.now()),
    time: Date.now(),
    ip: '203.0.113.7',
    privacy_mode: 'full_ip',
    user_agent: agent,
    language: 'de-DE',
    referrer: 'https://news.example/a?secret=1',
    query: 'a=b',
    campaign: 'spring',
    ...utmFrom(() => ''),
    trigger: 'link',
    rule: '',
    is_prefetch: false,
    is_preview: false,
    ...more,
  });
}

export function eventOf({ organization_id, app_id }: Omit<Place, 'link_id'>, device_id: string): string {
  const defaults = { device_id };
  const origin = {
    organization_id,
    app_id,
    received_at: Date.now(),
    ip: '203.0.113.7',
    privacy_mode: 'full_ip',
    defaults,
  };
  const decision = { event_id: newId('evt', 1), time: Date.now(), revenue_amount: '', revenue_currency: '' };
  return eventJson(
    eventPrefix({ ...origin, privacy_mode: 'full_ip' }),
    { ...decision, is_conversion: false, is_id_made: true, linkFields: '' },
    JSON.stringify({ name: 'opened', user_id: 'ada', properties: { email: 'ada@example.com' } }),
  );
}

/** The log of a NATS server, with a stream created here. */
export class LogForTest {
  readonly nats: Nats;
  #frame = 0;

  private constructor(nats: Nats) {
    this.nats = nats;
  }

  static async of(url: string): Promise<LogForTest> {
    const nats = await Nats.connect({ url, name: 'live-test', installation: defaultInstallation });
    await ensureLogStream(nats, { bytesMax: 67_108_864, replicas: 1 }, {});
    return new LogForTest(nats);
  }

  /** Stores records in one frame. */
  async write(kind: RecordKind, ...lines: readonly string[]): Promise<void> {
    const payload = lines.map((line) => `${line}\n`).join('');
    const into = Buffer.alloc(frameHeaderBytes + 3 * payload.length);
    const lane = { kind, partition: 0 };
    const header = { ...lane, producer_id: 'p'.repeat(26), frame_no: ++this.#frame, records: lines.length };
    const bytes = into.subarray(0, encodeFrame(into, 0, { ...header, written_at: Date.now() }, payload));
    const answer = await this.nats.request(this.nats.names.subjectOf(lane), bytes);
    if (answer?.status !== 0) throw new Error('the log did not store a frame');
  }

  close(): Promise<void> {
    return this.nats.close();
  }
}

export interface StreamEvent {
  readonly id: string;
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into what it tests
  readonly data: any;
}

/** A client of a stream, like an EventSource. */
export class StreamClient {
  readonly events: StreamEvent[] = [];
  /** As set by the last event or heartbeat. */
  lastId = '';
  isOver = false;
  readonly ended: Promise<void>;
  readonly #leaving = new AbortController();

  private constructor(response: Response, leaving: AbortController) {
    this.#leaving = leaving;
    this.ended = this.#read(response).catch(() => undefined);
  }

  /** @throws unless the answer is a stream. */
  static async open(url: string, token: string, headers: Record<string, string> = {}): Promise<StreamClient> {
    const leaving = new AbortController();
    const response = await fetch(url, {
      signal: leaving.signal,
      headers: { 'x-forwarded-proto': 'https', authorization: `Bearer ${token}`, ...headers },
    });
    if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
    return new StreamClient(response, leaving);
  }

  of(...kinds: readonly string[]): StreamEvent[] {
    return this.events.filter(({ event }) => kinds.includes(event));
  }

  async leave(): Promise<void> {
    this.#leaving.abort();
    await this.ended;
  }

  async #read(response: Response): Promise<void> {
    const decoder = new TextDecoder();
    let text = '';
    try {
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk as Uint8Array, { stream: true });
        const blocks = text.split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) this.#take(block);
      }
    } finally {
      this.isOver = true;
    }
  }

  #take(block: string): void {
    const fields = new Map(block.split('\n').map((line) => line.split(/: (.*)/s, 2) as [string, string]));
    this.lastId = fields.get('id') ?? this.lastId;
    const [event, data] = [fields.get('event'), fields.get('data')];
    if (event !== undefined) this.events.push({ id: this.lastId, event, data: JSON.parse(data ?? 'null') });
  }
}
