/** Finds fields that Kubernetes does not know: its schemas allow them, its types do not. */
import { join } from 'node:path';
import ts from 'typescript';
import type { Resource } from './manifests.ts';

/** @returns the compiler's sentences; each resource is a literal of its kind's type in a file that exists only here. */
export function unknownFields(resources: readonly Resource[], moduleOf: (resource: Resource) => string): string[] {
  const lines = resources.map((resource, at) => {
    const { apiVersion: _, kind, ...fields } = resource;
    return [
      `import { ${kind} as Kind${at} } from '${moduleOf(resource)}';`,
      `new Kind${at}(${JSON.stringify(fields)});`,
    ].join('\n');
  });
  const file = join(process.cwd(), 'deploy/kubernetes/literals.ts');
  const options: ts.CompilerOptions = {
    ...{ noEmit: true, strict: true, skipLibCheck: true, types: [], lib: ['lib.es2022.d.ts'] },
    ...{
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      target: ts.ScriptTarget.ES2022,
    },
  };
  const host = ts.createCompilerHost(options);
  const sourceOnDisk = host.getSourceFile.bind(host);
  host.getSourceFile = (name, ...others) =>
    name === file ? ts.createSourceFile(name, lines.join('\n'), ts.ScriptTarget.ES2022) : sourceOnDisk(name, ...others);
  const existsOnDisk = host.fileExists.bind(host);
  host.fileExists = (name) => name === file || existsOnDisk(name);
  const program = ts.createProgram([file], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ messageText, start = 0 }) => {
    const kind = resources[lines.join('\n').slice(0, start).split('\nnew ').length - 2];
    return `${kind?.kind} ${kind?.metadata.name}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
