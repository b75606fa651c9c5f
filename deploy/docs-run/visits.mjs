// Runs in the machine: through the proxy, visits a link, sends events, creates links and changes one, until SIGTERM. A write is sent when
// its time has come, whether or not earlier ones were answered. Then prints for each kind what failed, and the longest request; and how
// long writes were refused: from the beginning of the first that failed to that of the last.
// node visits.mjs LINK_HOST LINK_PATH [API_KEY APP_ID LINK_ID TOKEN]; without a key, it only visits
import { Agent, request } from 'node:https';

const [linkHost, path, apiKey, appId, linkId, token] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: Infinity });
const figures = { kinds: {}, refusedWritesMs: 0 };
let firstRefusedMs = Number.POSITIVE_INFINITY;
let lastRefusedMs = 0;
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

async function once(kind, expected, ask) {
  figures.kinds[kind] ??= { sent: 0, failed: {}, longestMs: 0 };
  const figure = figures.kinds[kind];
  const startedMs = performance.now();
  figure.sent++;
  const outcome = await ask();
  figure.longestMs = Math.max(figure.longestMs, Math.round(performance.now() - startedMs));
  if (outcome === expected) return;
  figure.failed[outcome] = (figure.failed[outcome] ?? 0) + 1;
  if (kind === 'redirects') return;
  firstRefusedMs = Math.min(firstRefusedMs, startedMs);
  lastRefusedMs = Math.max(lastRefusedMs, startedMs);
}

/** @returns once all have been answered. */
async function each(intervalMs, ask) {
  const asked = [];
  while (!isEnding) {
    asked.push(ask());
    await new Promise((done) => setTimeout(done, intervalMs));
  }
  await Promise.all(asked);
}

const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1';
const visit = () => send({ servername: linkHost, path, headers: { host: linkHost, 'user-agent': iphone } });

const name = 'api.example.com';
function write(method, target, credential, content) {
  const body = JSON.stringify(content);
  const headers = { host: name, 'content-type': 'application/json', 'content-length': body.length, ...credential };
  return send({ servername: name, path: `/v1${target}`, method, headers }, body);
}
const bearer = { authorization: `Bearer ${token}` };
const run = Date.now().toString(36);
let count = 0;
const event = () =>
  write(
    'POST',
    '/sdk/events',
    { 'x-api-key': apiKey },
    {
      events: [{ event_id: `docs-${run}-${++count}`, name: 'purchase', device_id: 'device' }],
    },
  );
const create = () => write('POST', '/links', bearer, { app_id: appId, path: '/created' });
const change = () => write('PATCH', `/links/${linkId}`, bearer, { campaign: `change-${++count}` });

process.once('SIGTERM', () => {
  isEnding = true;
});
const visitor = async () => {
  while (!isEnding) {
    await once('redirects', '302', visit);
    await new Promise((done) => setTimeout(done, 20));
  }
};
await Promise.all([
  ...Array.from({ length: 4 }, visitor),
  ...(apiKey === undefined
    ? []
    : [
        each(50, () => once('events', '202', event)),
        each(250, () => once('changes', '200', change)),
        each(250, () => once('new links', '201', create)),
      ]),
]);
figures.refusedWritesMs = Math.max(0, Math.ceil(lastRefusedMs - firstRefusedMs));
console.log(JSON.stringify(figures));
process.exit();
