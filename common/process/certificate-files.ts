/**
 * The certificates of the HTTPS ports: read from their files and checked against their keys before the server parses
 * them.
 */
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Config } from './settings.ts';

export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  /** The host names that it is for, in lower case. */
  readonly names: readonly string[];
  readonly endsMs: number;
}

export type CertificateSettings = Pick<Config, 'TLS_CERT_FILE' | 'TLS_KEY_FILE'>;

export interface CertificatesRead {
  /** The first is served if no other matches the requested name; empty if there is an error or none is configured. */
  readonly certificates: readonly Certificate[];
  /** One sentence for each error. */
  readonly faults: readonly string[];
  /** Changes whenever a file's contents change. */
  readonly digest: string;
}

/** Each additional certificate needs a copy of all routes for each of its names. */
const certificatesMax = 100;
const namesMax = 200;

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** Reads all files once, so that the digest covers exactly what is checked. */
export function readCertificates(settings: CertificateSettings): CertificatesRead {
  const { TLS_CERT_FILE: certFiles, TLS_KEY_FILE: keyFiles } = settings;
  const digest = createHash('sha256');
  const faults = countFaults(certFiles, keyFiles);
  if (faults.length > 0) return { certificates: [], faults, digest: '' };
  const certificates: Certificate[] = [];
  for (const [at, certFile] of certFiles.entries()) {
    const found = readPair(certFile, keyFiles[at] ?? '', at > 0, (bytes) => digest.update(bytes));
    if (Array.isArray(found)) faults.push(...found);
    else certificates.push(found);
  }
  const names = certificates.slice(1).reduce((sum, one) => sum + one.names.length, 0);
  if (names > namesMax)
    faults.push(`TLS_CERT_FILE: the certificates after the first have ${names} names, more than ${namesMax}`);
  return { certificates: faults.length > 0 ? [] : certificates, faults, digest: digest.digest('hex') };
}

function countFaults(certFiles: readonly string[], keyFiles: readonly string[]): string[] {
  if (certFiles.length > 0 && keyFiles.length === 0) {
    return ['TLS_CERT_FILE is set and TLS_KEY_FILE is not: set both or neither'];
  }
  if (keyFiles.length > 0 && certFiles.length === 0) {
    return ['TLS_KEY_FILE is set and TLS_CERT_FILE is not: set both or neither'];
  }
  if (certFiles.length !== keyFiles.length) {
    return [
      `TLS_CERT_FILE names ${certFiles.length} files and TLS_KEY_FILE ${keyFiles.length}: name one key for each certificate`,
    ];
  }
  if (certFiles.length > certificatesMax) return [`TLS_CERT_FILE names more than ${certificatesMax} files`];
  return [];
}

/** The pair, or sentences that say what is wrong with it. */
function readPair(
  certFile: string,
  keyFile: string,
  needsName: boolean,
  saw: (bytes: Buffer | string) => void,
): Certificate | string[] {
  const cert = read('TLS_CERT_FILE', certFile, 'certificate', saw, (bytes) => new X509Certificate(bytes));
  const key = read('TLS_KEY_FILE', keyFile, 'private key', saw, (bytes) => createPrivateKey(bytes));
  if ('fault' in cert || 'fault' in key) return [cert, key].flatMap((one) => ('fault' in one ? [one.fault] : []));
  const { value: certificate } = cert;
  if (!certificate.checkPrivateKey(key.value)) {
    return [`TLS_KEY_FILE is not the private key of the certificate in TLS_CERT_FILE: ${keyFile} and ${certFile}`];
  }
  const endsMs = Date.parse(certificate.validTo);
  const names = namesOf(certificate);
  if (needsName && names.length === 0) {
    return [`TLS_CERT_FILE: ${certFile} has no DNS name, so it cannot be chosen: name it first or leave it out`];
  }
  try {
    // The whole chain, as the server will load it.
    createSecureContext({ cert: cert.bytes, key: key.bytes });
  } catch (error) {
    return [`TLS_CERT_FILE cannot be used: ${certFile}: ${reasonOf(error)}`];
  }
  return { certFile, keyFile, names, endsMs };
}

type ReadFile<T> = { readonly bytes: Buffer; readonly value: T } | { readonly fault: string };

function read<T>(
  name: string,
  file: string,
  what: string,
  saw: (bytes: Buffer | string) => void,
  parse: (bytes: Buffer) => T,
): ReadFile<T> {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    saw(reasonOf(error));
    return { fault: `${name} cannot be read: ${reasonOf(error)}` };
  }
  saw(bytes);
  try {
    return { bytes, value: parse(bytes) };
  } catch {
    return { fault: `${name} is not a ${what} in PEM format: ${file}` };
  }
}

function namesOf({ subjectAltName = '' }: X509Certificate): string[] {
  const names = subjectAltName.split(', ').filter((one) => one.startsWith('DNS:'));
  return [...new Set(names.map((one) => one.slice('DNS:'.length).toLowerCase()))];
}
