/**
 * The minimal redirector: uWebSockets.js answers every request with one 302. The redirector's cost is divided by its
 * cost. With the files of a certificate as arguments, it answers over TLS.
 */
import { App, tlsApp, us_socket_local_port } from '#common/http/uws.ts';

const [certFile, keyFile] = process.argv.slice(2);
const app = certFile && keyFile ? tlsApp({ certFile, keyFile }) : App();

app
  .get('/*', (res) => {
    res.writeStatus('302 Found').writeHeader('Location', 'https://example.com/sale?ref=link').endWithoutBody(0);
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (!socket) throw new Error('no port could be opened');
    process.stdout.write(`port ${us_socket_local_port(socket)}\n`);
  });

process.stdin.resume().on('end', () => process.exit(0));
