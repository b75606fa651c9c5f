/** A device as a process that tests kill: `host apiKey file name…` tracks the names, sends them, and prints what is left. */
import { Client } from '#sdk/typescript/src/client.ts';
import { fetchSend } from '#sdk/typescript/src/fetch-send.ts';
import { FileStore } from '#sdk/typescript/src/file-store.ts';
import { FirstOpening } from '#sdk/typescript/src/first-open.ts';
import { FIRST_OPEN_WAIT_MS } from '#sdk/typescript/src/limits.ts';
import * as links from '#sdk/typescript/src/link-work.ts';

const [host = '', apiKey = '', file = '', ...names] = process.argv.slice(2);
const client = new Client(
  { host, apiKey },
  {
    kind: 'device',
    firstOpen: (own) => new FirstOpening(own),
    store: new FileStore(file),
    send: fetchSend(() => false),
    now: Date.now,
    random: () => 0.01,
    newId: (kind) => `${kind}-${crypto.randomUUID()}`,
    timer: setTimeout,
    exclusively: async (work) => {
      await work();
      return true;
    },
    device: () => ({ platform: 'ios', os_version: '18.5', language: 'de' }),
    links: () => links,
  },
);
client.onLink((link) => console.log(JSON.stringify({ link })));
for (const name of names) await client.track(name);
// The client's own timer is the earlier one: the first match and the install come before the events.
await new Promise((resolve) => setTimeout(resolve, FIRST_OPEN_WAIT_MS));
for (;;) {
  const { queued } = await client.flush();
  if (queued === 0) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
console.log(JSON.stringify({ first: await client.firstLink() }));
process.exit(0);
