/** The manifests of deploy/kubernetes, read without kustomize. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';

export const folder = 'deploy/kubernetes';

export interface EnvironmentVariable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly configMapKeyRef?: { readonly name: string; readonly key: string };
    readonly secretKeyRef?: { readonly name: string; readonly key: string };
    readonly fieldRef?: { readonly fieldPath: string };
  };
}

export interface Probe {
  readonly httpGet?: { readonly path: string; readonly port: string };
  readonly tcpSocket?: { readonly port: string };
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly env: readonly EnvironmentVariable[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly securityContext: Record<string, unknown>;
}

type Labels = Readonly<Record<string, string>>;

interface Pod {
  readonly metadata: { readonly labels: Labels };
  readonly spec: {
    readonly securityContext: Record<string, unknown>;
    readonly enableServiceLinks?: boolean;
    readonly containers: readonly Container[];
    readonly initContainers?: readonly Container[];
  };
}

/** What the tests read of a resource; each kind has some of it. */
export interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Labels };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly template?: Pod;
    readonly replicas?: number;
    readonly clusterIP?: string;
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly podSelector?: { readonly matchLabels?: Labels };
    readonly ports?: readonly { readonly name: string; readonly port: number; readonly targetPort: string }[];
    readonly endpoints?: readonly { readonly port: string; readonly path: string }[];
    readonly scaleTargetRef?: { readonly kind: string; readonly name: string };
    readonly maxReplicas?: number;
    readonly metrics?: readonly { readonly containerResource?: { readonly container: string } }[];
    readonly behavior?: { readonly scaleDown?: { readonly selectPolicy?: string } };
    readonly egress?: readonly {
      readonly to: readonly { readonly namespaceSelector?: object }[];
      readonly ports?: readonly { readonly port: number }[];
    }[];
    readonly ingress?: readonly { readonly ports?: readonly { readonly port: number }[] }[];
    readonly rules?: readonly {
      readonly http: { readonly paths: readonly { readonly backend: { readonly service: BackendService } }[] };
    }[];
  };
}

interface BackendService {
  readonly name: string;
  readonly port: { readonly name: string };
}

export function parseResources(text: string): Resource[] {
  return parseAllDocuments(text).map((document) => {
    if (document.errors[0]) throw document.errors[0];
    return document.toJS() as Resource;
  });
}

export function resourcesIn(...folders: readonly string[]): Resource[] {
  return folders.flatMap((name) => {
    const files = readdirSync(join(folder, name)).filter(
      (file) => file.endsWith('.yaml') && file !== 'kustomization.yaml',
    );
    return files.flatMap((file) => parseResources(readFileSync(join(folder, name, file), 'utf8')));
  });
}

export function containersOf({ spec }: Resource): Container[] {
  return [...(spec?.template?.spec.initContainers ?? []), ...(spec?.template?.spec.containers ?? [])];
}

/** What kubelet adds to the environment of a pod for the Services of its namespace, unless its spec declines. */
export function serviceLinks(pod: Resource, services: readonly Resource[]): Record<string, string> {
  if (pod.spec?.template?.spec.enableServiceLinks === false) return {};
  const addressed = services.filter(({ spec }) => spec?.clusterIP !== 'None');
  return Object.assign(
    {},
    ...addressed.map(({ metadata, spec }, index) => {
      const [prefix, address] = [metadata.name.toUpperCase().replaceAll('-', '_'), `10.96.0.${index + 1}`];
      const ports = (spec?.ports ?? []).map(({ name, port }) => {
        const [link, url] = [`${prefix}_PORT_${port}_TCP`, `tcp://${address}:${port}`];
        return {
          ...{ [`${prefix}_SERVICE_HOST`]: address, [`${prefix}_SERVICE_PORT`]: String(port) },
          ...{ [`${prefix}_SERVICE_PORT_${name.toUpperCase()}`]: String(port), [`${prefix}_PORT`]: url },
          ...{ [link]: url, [`${link}_PROTO`]: 'tcp', [`${link}_PORT`]: String(port), [`${link}_ADDR`]: address },
        };
      });
      return Object.assign({}, ...ports) as Record<string, string>;
    }),
  ) as Record<string, string>;
}

/** Whether the labels have all of the selector. */
export function matches(selector: Labels | undefined, labels: Labels): boolean {
  return Object.entries(selector ?? {}).every(([key, value]) => labels[key] === value);
}

/** The lines NAME=VALUE of an example of secrets. */
export function valuesIn(file: string): Record<string, string> {
  const lines = readFileSync(join(folder, file), 'utf8').matchAll(/^([\w-]+)=(.*)$/gm);
  return Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value]));
}
