/** The minimal events endpoint: uWebSockets.js, one JSON.parse, ajv over the batch, and an answer. */
import { Ajv } from 'ajv';
import { App, us_socket_local_port } from '#common/http/uws.ts';
import { BatchSchema } from '#gateway/events/event-schema.ts';

const check = new Ajv({ strict: true, strictTypes: false, allowUnionTypes: true }).compile(BatchSchema);

App()
  .post('/*', (res) => {
    let isGone = false;
    const parts: Buffer[] = [];
    res.onAborted(() => {
      isGone = true;
    });
    res.onData((chunk, isLast) => {
      parts.push(Buffer.from(Uint8Array.from(new Uint8Array(chunk))));
      if (!isLast) return;
      const batch: unknown = JSON.parse(Buffer.concat(parts).toString());
      const isValid = check(batch);
      if (isGone) return;
      res.cork(() => {
        res.writeStatus(isValid ? '202 Accepted' : '400 Bad Request').end('{"accepted":50}');
      });
    });
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (!socket) throw new Error('no port could be opened');
    process.stdout.write(`port ${us_socket_local_port(socket)}\n`);
  });

process.stdin.resume().on('end', () => process.exit(0));
