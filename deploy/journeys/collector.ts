/** An OpenTelemetry collector for journeys: keeps the spans that it receives over OTLP/HTTP. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: number };
}

export interface ReceivedSpan {
  readonly process: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  readonly attributes: Readonly<Record<string, string | number | undefined>>;
}

interface Body {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly {
        name: string;
        traceId: string;
        spanId: string;
        parentSpanId?: string;
        attributes: readonly Attribute[];
      }[];
    }[];
  }[];
}

function valuesOf(attributes: readonly Attribute[]): ReceivedSpan['attributes'] {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]));
}

export class Collector {
  readonly spans: ReceivedSpan[] = [];
  readonly bodies: string[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const isTraces = request.method === 'POST' && request.url === '/v1/traces';
        if (isTraces) this.#keep(Buffer.concat(chunks).toString());
        response.writeHead(isTraces ? 200 : 404, { 'content-type': 'application/json' }).end('{}');
      });
    });
  }

  static async start(): Promise<Collector> {
    const collector = new Collector();
    await new Promise<void>((done) => collector.#server.listen(0, '127.0.0.1', done));
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The spans of a trace, each as the way to it from the root: `process name > process name`. */
  pathsOf(traceId: string): string[] {
    const spans = this.spans.filter((span) => span.traceId === traceId);
    const pathOf = ({ process, name, parentId }: ReceivedSpan): string => {
      const parent = spans.find(({ spanId }) => spanId === parentId);
      return `${parent === undefined ? '' : `${pathOf(parent)} > `}${process} ${name}`;
    };
    return spans.map(pathOf).sort();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((done) => this.#server.close(() => done()));
  }

  #keep(body: string): void {
    this.bodies.push(body);
    for (const { resource, scopeSpans } of (JSON.parse(body) as Body).resourceSpans) {
      const process = String(valuesOf(resource.attributes)['service.name']).replace('signpost-', '');
      for (const { name, traceId, spanId, parentSpanId = '', attributes } of scopeSpans.flatMap(({ spans }) => spans))
        this.spans.push({ process, name, traceId, spanId, parentId: parentSpanId, attributes: valuesOf(attributes) });
    }
  }
}
