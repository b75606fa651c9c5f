/** The files of deploy/kubernetes match the code and the schemas of Kubernetes. No cluster ran them here. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { loadConfig } from '#common/process/config.ts';
import { type ProcessRole, settingsOfRole } from '#common/process/config-roles.ts';
import { type SettingName, settings } from '#common/process/settings.ts';
import { skipWithout } from '#testing/skip.ts';
import {
  type Container,
  containersOf,
  folder,
  matches,
  type Resource,
  resourcesIn,
  serviceLinks,
  valuesIn,
} from './kubernetes/testing/manifests.ts';
import { unknownFields } from './kubernetes/testing/unknown-fields.ts';

const base = resourcesIn('base');
const all = [...base, ...resourcesIn('monitoring', 'example')];
const ofKind = (...kinds: string[]) => all.filter(({ kind }) => kinds.includes(kind));
const workloads = ofKind('StatefulSet', 'Deployment', 'Job');
const containers = workloads.flatMap(containersOf);
const labelsOf = (workload: Resource) => workload.spec?.template?.metadata.labels ?? {};
/** They serve nothing and listen on no port. */
const isTool = ({ args }: Container) => ['migrate', 'admin'].includes(args[0] ?? '');
const podsOf = (selector: Record<string, string> | undefined) =>
  workloads.filter((workload) => matches(selector, labelsOf(workload)));
const secrets = valuesIn('example/secrets.example.env');
const shared = valuesIn('base/settings.env');
const docs = readFileSync('docs/kubernetes.md', 'utf8');

/** What the image sets. */
const imageSettings = Object.fromEntries(
  [...readFileSync('deploy/image/Containerfile', 'utf8').matchAll(/\b([A-Z_]+)=([\w./]+)/g)].map(
    ([, name = '', value = '']) => [name, value],
  ),
);

/** Instead of the placeholders in the example. */
const keys: Record<string, string> = {
  SECRET_KEY: `k1:${Buffer.alloc(32).toString('base64')}`,
  ADDRESS_KEY: 'a'.repeat(32),
};

/** The environment of a container, with the example's secrets. */
function environmentOf({ env }: Container): Record<string, string> {
  return Object.fromEntries(
    env.map(({ name, value, valueFrom: from }) => [
      name,
      value ??
        keys[name] ??
        (from?.configMapKeyRef && shared[from.configMapKeyRef.key]) ??
        (from?.secretKeyRef && secrets[from.secretKeyRef.key]) ??
        (from?.fieldRef ? 'pod-0' : ''),
    ]),
  );
}

const moduleOf = ({ apiVersion, kind }: Pick<Resource, 'apiVersion' | 'kind'>) =>
  apiVersion.startsWith('monitoring.coreos.com/')
    ? `@kubernetes-models/prometheus-operator/${apiVersion}/${kind}`
    : `kubernetes-models/${apiVersion}/${kind}`;

/** What a resource violates in the schema of its kind; empty if nothing. */
async function faultsOf(resource: Resource): Promise<string> {
  type Model = new (resource: Resource) => { validate(): void };
  const { [resource.kind]: Kind } = (await import(moduleOf(resource))) as Record<string, Model>;
  if (!Kind) return `${resource.kind} is unknown`;
  try {
    new Kind(resource).validate();
    return '';
  } catch (error) {
    return `${resource.metadata.name}: ${String(error)}`;
  }
}

/** npm ci installs them; a folder of packages from before they were added does not have them. */
const hasModels = ['kubernetes-models', '@kubernetes-models/prometheus-operator'].every((name) =>
  existsSync(join('node_modules', name)),
);

const standard = (resources: Resource[]) =>
  resources.filter(({ apiVersion }) => !/cnpg|opstree|altinity/.test(apiVersion));

test('every resource is valid under the schema of its kind and has no field that Kubernetes does not know', {
  tags: ['slow'],
}, async (context) => {
  skipWithout(hasModels, 'kubernetes-models', context);
  const known = standard([...all, ...resourcesIn('example-stores')]);
  expect(known.length).toBeGreaterThan(30);
  const faults = await Promise.all(known.map(faultsOf));
  expect(faults.filter((fault) => fault !== '')).toEqual([]);
  expect(unknownFields(known, moduleOf)).toEqual([]);
});

test('a misspelled field and a value of the wrong type are found', { tags: ['slow'] }, async (context) => {
  skipWithout(hasModels, 'kubernetes-models', context);
  const [workload] = structuredClone(ofKind('Deployment')) as { spec: Record<string, unknown> }[];
  if (!workload) throw new Error('there is no Deployment');
  workload.spec['replicsa'] = 2;
  expect(unknownFields([workload as unknown as Resource], moduleOf).join()).toContain('replicsa');
  workload.spec['replicas'] = 'two';
  expect(await faultsOf(workload as unknown as Resource)).toContain('replicas');
});

test('every process is a command of signpost and gets only settings that it reads, with valid values', () => {
  const commands = readFileSync('deploy/signpost.ts', 'utf8');
  for (const container of containers) {
    const [role = ''] = container.args;
    expect(commands).toContain(`  ${role}: ['`);
    const names = container.env.map(({ name }) => name);
    const read: readonly string[] = isTool(container) ? Object.keys(settings) : settingsOfRole[role as ProcessRole];
    expect(
      names.filter((name) => !read.includes(name)),
      container.name,
    ).toEqual([]);
    expect(() => loadConfig(names as SettingName[], environmentOf(container)), container.name).not.toThrow();
    for (const { name, valueFrom, value } of container.env) {
      if (valueFrom?.configMapKeyRef) expect(Object.keys(shared)).toContain(valueFrom.configMapKeyRef.key);
      if (settings[name as SettingName].isSecret) expect(value, name).toBeUndefined();
    }
  }
});

test('every command starts with what kubelet adds to its environment, and finds all settings that it requires', {
  tags: ['slow'],
  timeout: 240_000,
}, async () => {
  expect(serviceLinks({ ...base[0], spec: {} } as Resource, ofKind('Service'))).toMatchObject({
    API_PORT: 'tcp://10.96.0.1:80',
    GATEWAY_PORT_80_TCP_ADDR: '10.96.0.2',
  });
  const pods = workloads.flatMap((pod) =>
    containersOf(pod).map((container) => [container.args[0] ?? '', { pod, container }] as const),
  );
  const ofRole = new Map(pods);
  expect(ofRole.size).toBe(8);
  const outcome = async ([role, { pod, container }]: (typeof pods)[number]) => {
    const env = { PATH: process.env['PATH'] ?? '', ...imageSettings, ...environmentOf(container) };
    const [entry, option] = isTool(container) ? [`deploy/local/${role}`, 'audit'] : [`${role}/main`, '--validate'];
    const run = promisify(execFile)(process.execPath, ['deploy/packages/run.mjs', `${entry}.ts`, option], {
      env: { ...env, ...serviceLinks(pod, ofKind('Service')) },
    });
    const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error);
    // The tools have no --validate: they read their settings, and then find no store.
    const hasRead = isTool(container) && /ENOTFOUND|EAI_AGAIN|unavailable/.test(stderr);
    return `${role}: ${hasRead ? 'The settings are valid.' : stdout + stderr}`.trim();
  };
  expect(await Promise.all([...ofRole].map(outcome))).toEqual(
    [...ofRole.keys()].map((role) => `${role}: The settings are valid.`),
  );
});

test('every secret that a process refers to is in the example and in the docs, and no other', () => {
  const referred = containers.flatMap(({ env }) =>
    env.flatMap(({ valueFrom }) => (valueFrom?.secretKeyRef ? [valueFrom.secretKeyRef] : [])),
  );
  expect(new Set(referred.map(({ name }) => name))).toEqual(new Set(['signpost']));
  expect([...new Set(referred.map(({ key }) => key))].sort()).toEqual(Object.keys(secrets).sort());
  for (const key of Object.keys(secrets)) expect(docs).toContain(`\`${key}\``);
});

test('every port is one that its process listens on, and no two processes of a pod share one', () => {
  for (const workload of workloads) {
    const ports = containersOf(workload).flatMap((container) => {
      const [role] = container.args;
      const config = loadConfig([], { ...imageSettings, ...environmentOf(container) });
      const expected: Record<string, number> = isTool(container) ? {} : { metrics: config.METRICS_PORT };
      if (role === 'redirector') expected['http'] = config.REDIRECTOR_HTTP_PORT;
      if (role === 'gateway' || role === 'api') expected['http'] = config.API_HTTP_PORT;
      const given = (container.ports ?? []).map(({ name, containerPort }) => [name.replace('pub-', ''), containerPort]);
      expect(Object.fromEntries(given), container.name).toEqual(expected);
      return Object.values(expected);
    });
    expect(new Set(ports).size).toBe(ports.length);
  }
  for (const service of ofKind('Service')) {
    const open = podsOf(service.spec?.selector).flatMap((workload) =>
      containersOf(workload).flatMap(({ ports }) => ports ?? []),
    );
    const names = open.map(({ name }) => name);
    for (const { targetPort } of service.spec?.ports ?? []) expect(names, service.metadata.name).toContain(targetPort);
  }
  const served = ofKind('Service').flatMap(({ metadata, spec }) =>
    (spec?.ports ?? []).map(({ name }) => `${metadata.name}:${name}`),
  );
  const asked = ofKind('Ingress').flatMap(({ spec }) => (spec?.rules ?? []).flatMap(({ http }) => http.paths));
  expect(asked).toHaveLength(3);
  for (const { backend } of asked) expect(served).toContain(`${backend.service.name}:${backend.service.port.name}`);
});

/** What each process is asked: that it was ready once, or is, or that its port is open. */
const probes: Record<string, Record<'startup' | 'ready', object | undefined>> = {
  redirector: { startup: { path: '/startupz', port: 'metrics' }, ready: { tcpSocket: { port: 'http' } } },
  gateway: { startup: { path: '/startupz', port: 'metrics' }, ready: { tcpSocket: { port: 'http' } } },
  api: { startup: { path: '/startupz', port: 'metrics' }, ready: { tcpSocket: { port: 'http' } } },
  // As a startup probe, it would keep a redirector from starting while NATS is away.
  publisher: {
    startup: { path: '/healthz', port: 'pub-metrics' },
    ready: { httpGet: { path: '/startupz', port: 'pub-metrics' } },
  },
  ingest: {
    startup: { path: '/healthz', port: 'metrics' },
    ready: { httpGet: { path: '/readyz', port: 'metrics' } },
  },
  webhooks: {
    startup: { path: '/healthz', port: 'metrics' },
    ready: { httpGet: { path: '/readyz', port: 'metrics' } },
  },
};

test('no pod is ready before it reached its stores once, and no outage of a store takes a process with visitors out of service', () => {
  for (const container of containers.filter((container) => !isTool(container))) {
    const { startupProbe, livenessProbe, readinessProbe, args } = container;
    const { startup, ready } = probes[args[0] ?? ''] ?? {};
    expect(startupProbe?.httpGet, container.name).toEqual(startup);
    expect(readinessProbe, container.name).toMatchObject(ready ?? {});
    expect(livenessProbe?.httpGet).toMatchObject({ path: '/healthz' });
  }
});

/** The port of the store that a setting leads to. */
function storePort(setting: string): number[] {
  const ports = { DATABASE_URL: 5432, REDIS_URL: 6379, NATS_URL: 4222, CLICKHOUSE_URL: 8123 };
  return Object.entries(ports).flatMap(([end, port]) => (setting.endsWith(end) ? [port] : []));
}

test('every pod may connect to the stores of its settings, and to no other', () => {
  for (const pod of workloads) {
    const policies = ofKind('NetworkPolicy').filter(({ spec }) => spec?.podSelector?.matchLabels);
    const own = policies.filter(({ spec }) => matches(spec?.podSelector?.matchLabels, labelsOf(pod)));
    const toStores = own.flatMap(({ spec }) => spec?.egress ?? []).filter(({ to }) => to[0]?.namespaceSelector);
    const open = toStores.flatMap(({ ports = [] }) => ports.map(({ port }) => port));
    const used = containersOf(pod).flatMap(({ env }) => env.flatMap(({ name }) => storePort(name)));
    expect([...new Set(open)].sort(), pod.metadata.name).toEqual([...new Set(used)].sort());
  }
});

test('every container runs unprivileged on a read-only file system', () => {
  for (const workload of workloads) {
    expect(workload.spec?.template?.spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 10001 });
    for (const { securityContext } of containersOf(workload)) {
      expect(securityContext).toEqual({
        ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
        capabilities: { drop: ['ALL'] },
      });
    }
  }
});

test('every process that serves has a budget for disruptions, a scaler, a policy and a monitor', () => {
  const lasting = workloads.filter((workload) => !containersOf(workload).some(isTool));
  const monitor = ofKind('ServiceMonitor')[0]?.spec;
  for (const workload of lasting) {
    const { name } = workload.metadata;
    const selects = (kind: string) =>
      ofKind(kind).filter(
        ({ spec }) => spec?.selector?.matchLabels && matches(spec.selector.matchLabels, labelsOf(workload)),
      );
    expect(selects('PodDisruptionBudget'), name).toHaveLength(1);
    const [scaler] = ofKind('HorizontalPodAutoscaler').filter(({ spec }) => spec?.scaleTargetRef?.name === name);
    expect(scaler?.spec?.scaleTargetRef?.kind).toBe(workload.kind);
    // Applying a number would undo what the scaler did.
    expect(workload.spec?.replicas, name).toBeUndefined();
    const measured = scaler?.spec?.metrics?.flatMap(({ containerResource: resource }) =>
      resource ? [resource.container] : [],
    );
    expect(containersOf(workload).map((container) => container.name)).toEqual(expect.arrayContaining(measured ?? []));
    // A pod with a journal ends for good only when an operator retires it.
    if (workload.kind === 'StatefulSet') expect(scaler?.spec?.behavior?.scaleDown?.selectPolicy).toBe('Disabled');
    const scraped = ofKind('Service').filter(
      ({ metadata, spec }) =>
        matches(monitor?.selector?.matchLabels, metadata.labels ?? {}) && matches(spec?.selector, labelsOf(workload)),
    );
    const metricsPorts = scraped.flatMap(({ spec }) => (spec?.ports ?? []).map((port) => port.name));
    const own = containersOf(workload).flatMap(({ ports = [] }) => ports.map((port) => port.name));
    expect(metricsPorts.sort(), name).toEqual(own.filter((port) => port.endsWith('metrics')).sort());
    expect(monitor?.endpoints?.map(({ port }) => port)).toEqual(expect.arrayContaining(metricsPorts));
  }
  for (const workload of workloads) {
    const policies = ofKind('NetworkPolicy').filter(({ spec }) => spec?.podSelector?.matchLabels);
    expect(policies.filter(({ spec }) => matches(spec?.podSelector?.matchLabels, labelsOf(workload)))).toHaveLength(1);
  }
  const ingests = ofKind('HorizontalPodAutoscaler').find(({ metadata }) => metadata.name === 'ingest');
  expect(ingests?.spec?.maxReplicas).toBe(Number(shared['LOG_PARTITIONS']));
});

test('every image has a version, and the stores’ operators are named with theirs', () => {
  const files = ['postgres', 'redis', 'clickhouse', 'nats'].map((name) =>
    readFileSync(`${folder}/example-stores/${name}.yaml`, 'utf8'),
  );
  const images = files.flatMap((text) => [...text.matchAll(/image(?:Name)?: (\S+)$/gm)].map(([, image]) => image));
  expect(images).toHaveLength(4);
  for (const image of images) expect(image).toMatch(/:v?\d+\.\d+(?:\.\d+)?$/);
  for (const operator of ['CloudNativePG 1.', 'OpsTree 0.', 'Altinity 0.']) {
    expect(readFileSync(`${folder}/example-stores/kustomization.yaml`, 'utf8')).toContain(operator);
  }
});
