/**
 * Replaces the certificates of open ports when their files change: checks every minute, and on SIGHUP. Files that
 * cannot be used change nothing: the current certificates are served until the contents change again.
 */
import type { Registry } from 'prom-client';
import { MINUTE_MS } from '#common/durations.ts';
import { systemTime, type Time, type Timer } from '#common/time.ts';
import {
  type Certificate,
  type CertificateSettings,
  type CertificatesRead,
  readCertificates,
} from './certificate-files.ts';
import type { LifecycleLog, Part } from './lifecycle.ts';
import { exposeGauge } from './telemetry.ts';

/**
 * Prepares a port for new certificates. @returns a function that makes the port use them. @throws if they cannot be
 * used.
 */
export type Prepare = (certificates: readonly Certificate[]) => () => Promise<void> | void;

export interface CertificateWatchOptions {
  readonly settings: CertificateSettings;
  readonly log: LifecycleLog;
  /** Replaced in tests. */
  readonly time?: Time;
  readonly signals?: NodeJS.EventEmitter;
}

export class CertificateWatch implements Part {
  readonly name = 'certificates';
  readonly #options: CertificateWatchOptions;
  readonly #time: Time;
  readonly #signals: NodeJS.EventEmitter;
  readonly #look = () => this.look();
  #served: CertificatesRead;
  #lastDigest: string;
  #prepare: Prepare = () => () => undefined;
  #timer: Timer | undefined;
  #isRefused = false;

  /** @throws naming each fault of the files. */
  constructor(options: CertificateWatchOptions) {
    this.#options = options;
    this.#time = options.time ?? systemTime;
    this.#signals = options.signals ?? process;
    this.#served = readCertificates(options.settings);
    this.#lastDigest = this.#served.digest;
    if (this.#served.faults.length > 0) throw new Error(this.#served.faults.join('\n'));
  }

  get certificates(): readonly Certificate[] {
    return this.#served.certificates;
  }

  /** @param prepare is called with each new set of certificates. */
  onChange(prepare: Prepare): void {
    this.#prepare = prepare;
  }

  expose(registry: Registry): void {
    exposeGauge(
      registry,
      'signpost_tls_certificate_ends_seconds',
      'Unix time at which the first of the served certificates expires.',
      () => Math.min(...this.certificates.map(({ endsMs }) => endsMs)) / 1_000,
    );
    exposeGauge(
      registry,
      'signpost_tls_certificate_refused',
      '1 while the certificate files on disk cannot be used and earlier ones are served.',
      () => (this.#isRefused ? 1 : 0),
    );
  }

  start(): void {
    const reason = this.#expired(this.#served);
    if (reason !== '') this.#options.log.error({ reason }, 'an expired certificate is served');
    this.#timer = this.#time.every(MINUTE_MS, this.#look);
    this.#signals.on('SIGHUP', this.#look);
  }

  stop(): void {
    this.#time.clear(this.#timer);
    this.#signals.off('SIGHUP', this.#look);
  }

  /** Reads the files, and uses them if their contents are new and valid. */
  look(): void {
    const found = readCertificates(this.#options.settings);
    if (found.digest === this.#lastDigest) return;
    this.#lastDigest = found.digest;
    if (found.digest === this.#served.digest) {
      this.#isRefused = false;
      return;
    }
    const faults = [...found.faults, ...(this.#expired(this.#served) === '' ? [this.#expired(found)] : [])];
    const reason = faults.filter((fault) => fault !== '').join('; ');
    if (reason !== '') {
      this.#refuse(reason);
      return;
    }
    let use: ReturnType<Prepare>;
    try {
      use = this.#prepare(found.certificates);
    } catch (error) {
      this.#refuse(error instanceof Error ? error.message : String(error));
      return;
    }
    // Not caught: if a port cannot be reopened, the process exits and restarts with the new files.
    void use();
    this.#served = found;
    this.#isRefused = false;
    const certificates = found.certificates.map(({ certFile, names, endsMs }) => ({
      file: certFile,
      names,
      ends: new Date(endsMs).toISOString(),
    }));
    this.#options.log.info({ certificates }, 'new certificates were loaded');
  }

  /** Empty if none has, by this machine's clock: that may be wrong, so nothing stops for it. */
  #expired({ certificates }: CertificatesRead): string {
    return certificates
      .filter(({ endsMs }) => endsMs < this.#time.now())
      .map(({ certFile, endsMs }) => `TLS_CERT_FILE expired on ${new Date(endsMs).toISOString()}: ${certFile}`)
      .join('; ');
  }

  #refuse(reason: string): void {
    this.#isRefused = true;
    this.#options.log.error(
      { reason },
      'the changed certificate files cannot be used; the earlier certificates are still served',
    );
  }
}
