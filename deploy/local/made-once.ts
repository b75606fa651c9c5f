/** What a first start makes and later ones find again: the secret key, the first password, the certificate. */
import { randomBytes, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
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

/** Value for SECRET_KEY. Losing the file makes API keys at rest unreadable and ends every session. */
export function secretKey(dataDir: string): string {
  const file = join(dataDir, 'secret-key');
  if (!existsSync(file)) writeSecret(file, `k1:${randomBytes(32).toString('base64')}\n`);
  return readFileSync(file, 'utf8').trim();
}

/** Value for ADDRESS_KEY. Losing the file costs the matches by address of a few hours. */
export function addressKey(dataDir: string): string {
  const file = join(dataDir, 'address-key');
  if (!existsSync(file)) writeSecret(file, `${randomBytes(32).toString('base64url')}\n`);
  return readFileSync(file, 'utf8').trim();
}

/** The login of the first user. The file is a body for POST /auth/login, readable by its owner alone. */
export interface FirstLogin {
  readonly email: string;
  readonly password: string;
}

export function loginFile(dataDir: string): string {
  return join(dataDir, 'login.json');
}

function readLogin(dataDir: string): FirstLogin | undefined {
  if (!existsSync(loginFile(dataDir))) return undefined;
  const kept: unknown = JSON.parse(readFileSync(loginFile(dataDir), 'utf8'));
  if (typeof kept !== 'object' || kept === null || !('email' in kept) || !('password' in kept)) return undefined;
  return { email: String(kept.email), password: String(kept.password) };
}

/**
 * The login to make the first user with: what is given, else what an earlier start made up, else made up now.
 * One made up is kept before the user is made, so that no crash in between loses a password that nobody has seen. One that is
 * given is its giver's to keep: no file holds it.
 */
export function firstLogin(dataDir: string, given: FirstLogin): FirstLogin & { readonly isMadeUp: boolean } {
  const kept = readLogin(dataDir);
  const email = given.email || kept?.email || 'admin@example.com';
  if (given.password !== '') {
    // Earlier versions kept it.
    if (kept?.password === given.password) rmSync(loginFile(dataDir));
    return { email, password: given.password, isMadeUp: false };
  }
  const login = { email, password: kept?.password ?? randomBytes(15).toString('base64url') };
  if (kept === undefined) writeSecret(loginFile(dataDir), `${JSON.stringify(login)}\n`);
  return { ...login, isMadeUp: kept === undefined };
}

/** After a start that found its first user: a password made up in this very start is nobody's. */
export function forgetUnusedLogin(dataDir: string, login: { readonly isMadeUp: boolean }): void {
  if (login.isMadeUp) rmSync(loginFile(dataDir), { force: true });
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
