/**
 * An API server that kubectl can apply to: it stores what it is sent, replaces what it is asked to merge, and records each request
 * that changes something. Like Kubernetes, it refuses another template for a Job. Nothing runs.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Resource } from './manifests.ts';

interface RecordedChange {
  readonly method: string;
  /** Such as statefulsets/redirector. */
  readonly target: string;
  readonly body: Resource;
}

/** Plural of each kind, and whether it belongs to a namespace. */
type ResourceKinds = Readonly<Record<string, readonly [plural: string, isNamespaced: boolean]>>;

export class RecordingApi {
  readonly changes: RecordedChange[] = [];
  readonly objects = new Map<string, Resource>();
  readonly #kinds: readonly { readonly apiVersion: string; readonly kind: string }[];
  readonly #plurals: ResourceKinds;
  readonly #server = createServer((request, response) => {
    void this.#answer(request).then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });

  constructor(kinds: readonly Pick<Resource, 'apiVersion' | 'kind'>[], plurals: ResourceKinds) {
    this.#kinds = [...new Map(kinds.map((one) => [`${one.apiVersion} ${one.kind}`, one])).values()];
    this.#plurals = plurals;
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage): Promise<readonly [number, object]> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const path = (request.url ?? '').split('?')[0] ?? '';
    const found = this.#discovery(path);
    if (found !== undefined) return [200, found];
    const { method = '' } = request;
    const target = path.replace(/^\/apis?\/([^/]+\/)?v[^/]+\//, '').replace(/^namespaces\/[^/]+\/(?=.)/, '');
    const isCreation = method === 'POST';
    const body = (text === '' ? {} : JSON.parse(text)) as Resource;
    const key = isCreation ? `${target}/${body.metadata.name}` : target;
    const known = this.objects.get(key);
    if (!isCreation && known === undefined) return [404, status(404, 'NotFound', `${key} not found`)];
    if (method === 'GET') return [200, known ?? {}];
    if (method === 'PATCH' && known?.kind === 'Job' && body.spec?.template !== undefined) {
      return [422, status(422, 'Invalid', 'spec.template: field is immutable')];
    }
    this.changes.push({ method, target: key, body });
    if (method === 'DELETE') {
      this.objects.delete(key);
      return [200, { kind: 'Status', apiVersion: 'v1', status: 'Success' }];
    }
    const stored = isCreation ? { ...body, metadata: { ...body.metadata, uid: key } } : merged(known, body);
    this.objects.set(key, stored as Resource);
    return [isCreation ? 201 : 200, stored as Resource];
  }

  /** The lists from which kubectl learns paths; undefined for another path. */
  #discovery(path: string): object | undefined {
    const groups = new Map<string, Set<string>>();
    for (const { apiVersion } of this.#kinds) {
      const [version = '', group = ''] = apiVersion.split('/').reverse();
      if (group !== '') groups.set(group, (groups.get(group) ?? new Set()).add(version));
    }
    if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] };
    if (path === '/apis') {
      const named = [...groups].map(([name, versions]) => {
        const all = [...versions].map((version) => ({ groupVersion: `${name}/${version}`, version }));
        return { name, versions: all, preferredVersion: all[0] };
      });
      return { kind: 'APIGroupList', apiVersion: 'v1', groups: named };
    }
    const groupVersion = /^\/(?:api\/(v1)|apis\/([^/]+\/[^/]+))$/
      .exec(path)
      ?.slice(1)
      .find((one) => one !== undefined);
    if (groupVersion === undefined) return undefined;
    const resources = this.#kinds
      .filter(({ apiVersion }) => apiVersion === groupVersion)
      .map(({ kind }) => {
        const [name, namespaced] = this.#plurals[kind] ?? [`${kind.toLowerCase()}s`, true];
        const verbs = ['create', 'delete', 'get', 'patch'];
        return { name, singularName: kind.toLowerCase(), namespaced, kind, verbs };
      });
    return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources };
  }
}

function status(code: number, reason: string, message: string): object {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message };
}

/** The objects of a patch, merged field by field; a list replaces a list, which is enough to record what follows. */
function merged(known: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const before = (typeof known === 'object' && known !== null ? known : {}) as Record<string, unknown>;
  return {
    ...before,
    ...Object.fromEntries(Object.entries(patch).map(([key, value]) => [key, merged(before[key], value)])),
  };
}
