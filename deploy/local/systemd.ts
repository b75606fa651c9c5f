/** What systemd is told if it started this process: a unit with Type=notify counts as started once it says so. */
import { execFile } from 'node:child_process';
import { SECOND_MS } from '#common/durations.ts';
import { notifySocket, systemEnvironment } from '#common/process/config.ts';

const extendEveryMs = 30 * SECOND_MS;
/** As TimeoutStartSec of signpost.service, so that as much time is left once the wait is over. */
const extensionMs = 300 * SECOND_MS;

export class Systemd {
  readonly #onFault: (line: string) => void;

  /** @param onFault gets a sentence if systemd could not be told. */
  constructor(onFault: (line: string) => void) {
    this.#onFault = onFault;
  }

  ready(): void {
    this.#tell('--ready');
  }

  /**
   * While `work` runs, systemd does not end the start for its TimeoutStartSec: a wait for other servers, and a
   * migration, may take longer.
   */
  async patiently<T>(work: () => Promise<T>, everyMs = extendEveryMs): Promise<T> {
    const extend = () => this.#tell(`EXTEND_TIMEOUT_USEC=${extensionMs * 1_000}`);
    extend();
    const timer = setInterval(extend, everyMs);
    try {
      return await work();
    } finally {
      clearInterval(timer);
    }
  }

  #tell(word: string): void {
    const socket = notifySocket();
    if (socket === '') return;
    execFile('systemd-notify', [word], { env: { ...systemEnvironment(), NOTIFY_SOCKET: socket } }, (error) => {
      if (error !== null) this.#onFault(`systemd was not told ${word}: ${error.message}`);
    });
  }
}
