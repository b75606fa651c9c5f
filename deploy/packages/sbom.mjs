// `npm run sbom`: what a production image installs, as CycloneDX. npm's own `--omit dev` also leaves out dependencies
// that a development package names as its peers (npm 11), so this lists everything and removes the development
// packages.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const npm = process.env.npm_execpath;
const [command, ...first] = npm === undefined ? ['npm'] : [process.execPath, npm];
const flags = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--package-lock-only'];
const { status, stdout, stderr } = spawnSync(command, [...first, ...flags], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 64 * 1024 * 1024,
});
if (status !== 0) {
  console.error(stderr);
  process.exit(1);
}
const sbom = JSON.parse(stdout);
// npm takes the folder's name.
sbom.metadata.component.name = process.env.npm_package_name ?? 'signpost';
const isForDevelopment = ({ properties = [] }) =>
  properties.some(({ name, value }) => name === 'cdx:npm:package:development' && value === 'true');
const kept = sbom.components.filter((component) => !isForDevelopment(component));
const refs = new Set([sbom.metadata.component['bom-ref'], ...kept.map((component) => component['bom-ref'])]);
sbom.components = kept;
sbom.dependencies = sbom.dependencies
  .filter(({ ref }) => refs.has(ref))
  .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) }));
console.log(JSON.stringify(sbom, null, 2));
