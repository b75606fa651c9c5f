/**
 * The open connections of a server, and the address of their clients. uWebSockets.js asks the kernel for the address at each call,
 * which is a tenth of the cost of a redirect. While all connections come from one address, as those of a reverse proxy do, it is asked
 * when a connection opens, and not at each request.
 */
import { socketAddress } from './socket-address.ts';
import type { HttpResponse } from './uws.ts';

export class Connections {
  #count = 0;
  /** Of all that are open; empty if they differ. Which of them closes is unknown, so it stays empty until all are closed. */
  #address = '';

  get count(): number {
    return this.#count;
  }

  /** For each connection before its first request. */
  opened(res: HttpResponse): void {
    if (this.#count === 0) this.#address = socketAddress(res);
    else if (this.#address !== '' && this.#address !== socketAddress(res)) this.#address = '';
    this.#count++;
  }

  closed(): void {
    this.#count--;
  }

  /** The address at the other end, as text; that of an IPv4-mapped IPv6 address as IPv4. */
  addressOf(res: HttpResponse): string {
    return this.#address === '' ? socketAddress(res) : this.#address;
  }
}
