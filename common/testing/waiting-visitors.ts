import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

const program = `
const net = require('node:net');
const tls = require('node:tls');
const { workerData: { port, count, isTls, connected }, parentPort } = require('node:worker_threads');
const visit = () => new Promise((done) => {
  let text = '';
  const keep = (chunk) => { text += chunk; };
  const plain = net.connect({ port, host: '127.0.0.1' }, () => {
    const socket = isTls ? tls.connect({ socket: plain, rejectUnauthorized: false }).on('data', keep) : plain.on('data', keep);
    socket.on('error', (error) => keep(error.code));
    socket.on('close', () => done(text.split('\\r\\n', 1)[0]));
    socket.write('GET / HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n');
    Atomics.add(connected, 0, 1);
    Atomics.notify(connected, 0);
  });
});
Promise.all(Array.from({ length: count }, visit)).then((replies) => parentPort.postMessage(replies));
`;

/**
 * Connects visitors from another thread and blocks this one until they are, so that nothing has accepted them when it returns.
 * @returns the first line that each is answered, or the code of its error.
 */
export function waitingVisitors(port: number, { count = 20, isTls = false } = {}): Promise<string[]> {
  const connected = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const worker = new Worker(program, { eval: true, workerData: { port, count, isTls, connected } });
  const replies = once(worker, 'message').then(([all]) => all as string[]);
  for (let there = 0; there < count; there = Atomics.load(connected, 0)) Atomics.wait(connected, 0, there);
  return replies;
}
