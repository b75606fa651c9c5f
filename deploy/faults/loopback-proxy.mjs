/** `loopback-proxy.mjs ADDRESS PORT`: passes HTTP requests on to the same port of loopback, whose server takes no others. */
import { createServer, request } from 'node:http';

const [address, port] = process.argv.slice(2);
// As long a URL as ClickHouse takes (http_max_uri_size).
createServer({ maxHeaderSize: 1_048_576 }, (asked, answer) => {
  const headers = { ...asked.headers, host: `127.0.0.1:${port}` };
  const passed = request({ host: '127.0.0.1', port, method: asked.method, path: asked.url, headers }, (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(answer);
  });
  passed.once('error', () => answer.destroy());
  answer.once('close', () => passed.destroy());
  asked.pipe(passed);
}).listen(Number(port), address);
