// The licences of packages, as one text: for what the dashboard's bundle and the image contain.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const isLicence = (name) => /^(licen[cs]e|copying|notice|ofl)(\.|-|$)/i.test(name);

/** The packages that have these files, as folders below node_modules. */
export function packagesOf(files) {
  const found = files.map((file) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  return [...new Set(found.filter((folder) => folder !== undefined))];
}

/** Every package of a folder `node_modules`, nested ones too. */
export function packagesBelow(folder) {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => !name.startsWith('.'));
  const folders = names.flatMap((name) =>
    name.startsWith('@')
      ? readdirSync(join(folder, name)).map((inner) => join(folder, name, inner))
      : [join(folder, name)],
  );
  return folders
    .filter((one) => existsSync(join(one, 'package.json')))
    .flatMap((one) => [one, ...packagesBelow(join(one, 'node_modules'))]);
}

/** Its own files, else those of the package whose binary it is: `@a/b-linux-x64-gnu` belongs to `@a/b`. */
function licencesIn(folder) {
  const parent = readdirSync(dirname(folder))
    .map((name) => join(dirname(folder), name))
    .find((other) => folder.startsWith(`${other}-`));
  for (const place of [folder, parent]) {
    const files = place === undefined ? [] : readdirSync(place).filter(isLicence).sort();
    if (files.length > 0) return files.map((file) => readFileSync(join(place, file), 'utf8').trim());
  }
  return [];
}

/** @param apache the text of the Apache License 2.0, of which the packager of uWebSockets.js left the author's binaries without. */
export function noticesOf(folders, apache) {
  const sections = folders.map((folder) => {
    const { name, version, license, author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const texts = licencesIn(folder);
    if (folder.endsWith('/uWebSockets.js'))
      texts.push(
        `The binaries are uWebSockets.js by Alex Hultman and contributors, under the Apache License 2.0.\n\n${apache}`,
      );
    if (texts.length === 0)
      texts.push(
        `License: ${license}. Author: ${typeof author === 'string' ? author : (author?.name ?? 'see its page')}. It has no licence text.`,
      );
    return [`${name} ${version}`, `${'-'.repeat(72)}\n${name} ${version}\n\n${texts.join('\n\n')}\n`];
  });
  const sorted = [...new Map(sections)].sort(([a], [b]) => (a < b ? -1 : 1));
  return sorted.map(([, text]) => text).join('\n');
}
