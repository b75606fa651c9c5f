/** What a first start makes and later ones find again: the secret key, the first password, the certificate. */
import { randomBytes, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { generate } from 'selfsigned';
import { cannotWrite, StartupError } from './child.ts';

function writeSecret(file: string, text: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.new`, text, { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch (error) {
    throw new StartupError(cannotWrite(dirname(file), error));
  }
}

function keptOrMade(file: string, make: () => string): { value: string; isNew: boolean } {
  if (existsSync(file)) return { value: readFileSync(file, 'utf8').trim(), isNew: false };
  const value = make();
  writeSecret(file, `${value}\n`);
  return { value, isNew: true };
}

/** Value for SECRET_KEY. Losing the file makes API keys at rest unreadable and ends every session. */
export function secretKey(dataDir: string): string {
  return keptOrMade(join(dataDir, 'secret-key'), () => `k1:${randomBytes(32).toString('base64')}`).value;
}

export interface FirstPassword {
  readonly value: string;
  readonly isNew: boolean;
  readonly file: string;
}

export function firstPassword(dataDir: string): FirstPassword {
  const file = join(dataDir, 'admin-password');
  return { ...keptOrMade(file, () => randomBytes(15).toString('base64url')), file };
}

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

const validDays = 825;
const renewBeforeMs = 30 * 86_400_000;

/** A certificate for this machine's own names, made anew when it is about to run out. */
export async function certificate(dataDir: string, domain: string): Promise<CertificateFiles> {
  const files = { certFile: join(dataDir, 'tls', 'cert.pem'), keyFile: join(dataDir, 'tls', 'key.pem') };
  if (existsSync(files.certFile) && existsSync(files.keyFile)) {
    const kept = new X509Certificate(readFileSync(files.certFile));
    if (Date.parse(kept.validTo) - renewBeforeMs > Date.now() && kept.checkHost(domain) !== undefined) return files;
  }
  const names = [...new Set(['localhost', '*.localhost', domain, `*.${domain}`])];
  const made = await generate([{ name: 'commonName', value: 'Signpost on this machine' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    // An hour back, for clocks that disagree.
    notBeforeDate: new Date(Date.now() - 3_600_000),
    notAfterDate: new Date(Date.now() + validDays * 86_400_000),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          ...names.map((value) => ({ type: 2 as const, value })),
          { type: 7 as const, ip: '127.0.0.1' },
          { type: 7 as const, ip: '::1' },
        ],
      },
    ],
  });
  writeSecret(files.keyFile, made.private);
  writeSecret(files.certFile, made.cert);
  return files;
}
