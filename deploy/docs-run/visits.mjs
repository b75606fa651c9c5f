// Runs in the machine: visits a link and sends events through the proxy until SIGTERM. Then prints for each kind what failed, the time
// between the first and the last failure, and the longest request. node visits.mjs LINK_HOST LINK_PATH API_KEY
import { Agent, request } from 'node:https';

const [linkHost, path, apiKey] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: 16 });
const none = () => ({ sent: 0, failed: {}, failedForMs: 0, longestMs: 0 });
const figures = { redirects: none(), writes: none() };
let isEnding = false;

function send(options, body) {
  return new Promise((done) => {
    const sent = request({ host: '127.0.0.1', agent, ...options }, (answer) => {
      answer.resume();
      answer.on('end', () => done(String(answer.statusCode)));
    });
    sent.on('error', (error) => done(error.code ?? error.message));
    sent.end(body);
  });
}

async function repeat(figure, expected, pauseMs, once) {
  let firstFailureMs = 0;
  while (!isEnding) {
    const startedMs = performance.now();
    const outcome = await once();
    figure.sent++;
    figure.longestMs = Math.max(figure.longestMs, Math.round(performance.now() - startedMs));
    if (outcome !== expected) {
      figure.failed[outcome] = (figure.failed[outcome] ?? 0) + 1;
      firstFailureMs ||= startedMs;
      figure.failedForMs = Math.max(figure.failedForMs, Math.round(performance.now() - firstFailureMs));
    }
    await new Promise((done) => setTimeout(done, pauseMs));
  }
}

const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1';
const visit = () => send({ servername: linkHost, path, headers: { host: linkHost, 'user-agent': iphone } });
let events = 0;
const write = () => {
  const body = JSON.stringify({ events: [{ event_id: `docs-${++events}`, name: 'purchase', device_id: 'device' }] });
  const headers = {
    host: 'api.example.com',
    'x-api-key': apiKey,
    'content-type': 'application/json',
    'content-length': body.length,
  };
  return send({ servername: 'api.example.com', path: '/v1/sdk/events', method: 'POST', headers }, body);
};

process.once('SIGTERM', () => {
  isEnding = true;
});
await Promise.all([
  ...Array.from({ length: 4 }, () => repeat(figures.redirects, '302', 5, visit)),
  repeat(figures.writes, '202', 50, write),
]);
console.log(JSON.stringify(figures));
process.exit();
