/**
 * What kubectl makes of deploy/kubernetes: it renders the folder, and applies it to a server that records the requests.
 * @module-tag slow
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, type TestContext, test } from 'vitest';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';
import { containersOf, folder, parseResources, type Resource, resourcesIn } from './kubernetes/testing/manifests.ts';
import { RecordingApi } from './kubernetes/testing/recording-api.ts';

const all = resourcesIn('base', 'monitoring', 'example');
const docs = readFileSync('docs/kubernetes.md', 'utf8');
const kubectl = findProgram(['kubectl']);
const version = kubectl ? spawnSync(kubectl, ['version', '--client'], { encoding: 'utf8' }).stdout : '';
const skipWithoutKubectl = (context: TestContext) =>
  skipWithout(/Kustomize Version: v5/.test(version), 'kubectl with Kustomize 5', context);

/** A copy of the folder with the example's secrets. */
function copyOfFolder(): string {
  const copy = mkdtempSync(join(tmpdir(), 'signpost-kubernetes-'));
  cpSync(folder, copy, { recursive: true });
  cpSync(join(copy, 'example/secrets.example.env'), join(copy, 'example/secrets.env'));
  cpSync(join(copy, 'example-stores/secrets.example'), join(copy, 'example-stores/secrets'), { recursive: true });
  return copy;
}

const render = (path: string) => parseResources(execFileSync(kubectl ?? '', ['kustomize', path], { encoding: 'utf8' }));

test('kustomize renders the example, and the processes refer to what it generates', (context) => {
  skipWithoutKubectl(context);
  const copy = copyOfFolder();
  try {
    const rendered = render(join(copy, 'example'));
    const title = ({ kind, metadata }: Resource) => `${kind} ${metadata.name.replace(/^(signpost)-\w{10}$/, '$1')}`;
    const generated = ['ConfigMap signpost', 'Secret signpost'];
    expect(rendered.map(title).sort()).toEqual([...all.map(title), ...generated].sort());
    const nameOf = (kind: string) => rendered.find((resource) => resource.kind === kind)?.metadata.name;
    for (const { env, image } of rendered.flatMap(containersOf)) {
      expect(image).toMatch(/\/signpost:\d/);
      for (const { valueFrom: from } of env) {
        if (from?.secretKeyRef) expect(from.secretKeyRef.name).toBe(nameOf('Secret'));
        if (from?.configMapKeyRef) expect(from.configMapKeyRef.name).toBe(nameOf('ConfigMap'));
      }
    }
    expect(rendered.filter(({ kind, metadata }) => kind !== 'Namespace' && metadata.namespace !== 'signpost')).toEqual(
      [],
    );
    const stores = render(join(copy, 'example-stores'));
    expect(stores.length).toBeGreaterThan(10);
    // NATS reads its file and its password when it starts.
    const ofNats = stores.filter(({ kind, metadata }) => /ConfigMap|Secret/.test(kind) && /^nats-/.test(metadata.name));
    expect(ofNats.map(({ metadata }) => metadata.name)).toEqual([expect.any(String), expect.any(String)]);
  } finally {
    rmSync(copy, { recursive: true });
  }
});

test('an upgrade as documented leaves the number of pods to the scaler, and replaces every pod that reads a changed setting', {
  timeout: 120_000,
}, async (context) => {
  skipWithoutKubectl(context);
  const copy = copyOfFolder();
  const overlay = join(copy, 'example');
  const api = new RecordingApi(render(overlay), {
    Namespace: ['namespaces', false],
    NetworkPolicy: ['networkpolicies', true],
    Ingress: ['ingresses', true],
  });
  try {
    const server = await api.start();
    const config = join(copy, 'kubeconfig');
    writeFileSync(config, '{}');
    const run = (...args: string[]) =>
      promisify(execFile)(kubectl ?? '', [
        '--server',
        server,
        '--kubeconfig',
        config,
        `--cache-dir=${copy}/cache`,
        ...args,
      ]);
    /** The last section of the page, with the folder of this test. */
    const commands = [...docs.slice(docs.indexOf('## Upgrade')).matchAll(/^ *kubectl (.+)$/gm)].map(([, line = '']) =>
      line.replace('deploy/kubernetes/example', overlay).replace('apply', 'apply --validate=false').split(' '),
    );
    expect(commands.map(([, ...words]) => words.join(' '))).toHaveLength(2);
    await run('apply', '--validate=false', '-k', overlay);
    const scaled = [
      'statefulsets/redirector',
      'statefulsets/gateway',
      'deployments/api',
      'deployments/ingest',
      'deployments/webhooks',
    ];
    for (const key of scaled) {
      const object = api.objects.get(key);
      if (!object) throw new Error(`${key} was not created`);
      expect(object.spec?.replicas, key).toBeUndefined();
      api.objects.set(key, { ...object, spec: { ...object.spec, replicas: 5 } });
    }
    const file = join(overlay, 'kustomization.yaml');
    const changed = readFileSync(file, 'utf8')
      .replace(/newTag: \S+/, 'newTag: 9.9.9')
      .replace('10.42.0.0/16', '10.43.0.0/16');
    writeFileSync(file, changed);
    api.changes.length = 0;
    for (const words of commands) await run(...words);
    const patched = new Map(api.changes.map(({ target, body }) => [target, body]));
    const setting = {
      name: 'TRUSTED_PROXIES',
      valueFrom: { configMapKeyRef: { name: expect.stringMatching(/^signpost-\w{10}$/) } },
    };
    for (const key of scaled) {
      const body = patched.get(key);
      expect(JSON.stringify(body), key).toContain('signpost:9.9.9');
      expect(JSON.stringify(body), key).not.toContain('"replicas"');
      const own = body?.spec?.template?.spec.containers.find(({ name }) => key.endsWith(name));
      if (!/ingest|webhooks/.test(key)) expect(own?.env, key).toContainEqual(expect.objectContaining(setting));
    }
    expect(api.changes.map(({ method, target }) => `${method} ${target}`)).toEqual(
      expect.arrayContaining(['DELETE jobs/migrate', 'POST jobs/migrate']),
    );
  } finally {
    await api.stop();
    rmSync(copy, { recursive: true });
  }
});
