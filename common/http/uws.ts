/** The one door to uWebSockets.js: the package exports either names or one default, depending on who packed it. */
import * as namespace from 'uWebSockets.js';

const uws: typeof namespace =
  'default' in namespace ? (namespace as unknown as { default: typeof namespace }).default : namespace;

export const { App, SSLApp, us_listen_socket_close, us_socket_local_port, LIBUS_LISTEN_EXCLUSIVE_PORT } = uws;
export type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
