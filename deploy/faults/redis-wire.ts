/** Sends commands to Redis without a client library, since the store may be under faults. */
import { connect } from 'node:net';

const timeoutMs = 5_000;

export const RedisWire = {
  /** Sends one command without arguments. @returns the first line of the answer. */
  send(url: string, command: string): Promise<string> {
    const { hostname, port, username, password } = new URL(url);
    return new Promise((settle, fail) => {
      const socket = connect({ host: hostname, port: Number(port), timeout: timeoutMs });
      socket.once('connect', () => socket.write(`AUTH ${username} ${password}\r\n${command}\r\n`));
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
        const [, answer, more] = text.split('\r\n');
        if (answer === undefined || more === undefined) return;
        socket.destroy();
        settle(answer);
      });
      socket.once('timeout', () => socket.destroy(new Error(`Redis did not answer ${command}`)));
      socket.once('error', fail);
    });
  },
};
