import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Gauge, type Registry } from 'prom-client';

/** `tls_certificate_ends_seconds`: when the certificate in the file ends, as Unix time, read at each scrape. None without a file. */
export function exposeCertificate(registry: Registry, file: string): void {
  if (file === '') return;
  new Gauge({
    name: 'tls_certificate_ends_seconds',
    help: 'Unix time at which the certificate in TLS_CERT_FILE ends; 0 if it cannot be read.',
    registers: [registry],
    collect() {
      this.set(endOf(file));
    },
  });
}

function endOf(file: string): number {
  try {
    return Date.parse(new X509Certificate(readFileSync(file)).validTo) / 1_000;
  } catch {
    return 0;
  }
}
