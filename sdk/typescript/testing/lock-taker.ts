/** A process that tests start several times: `folder count startMs` opens the files 0, 1, … at agreed moments, and keeps them. */
import { FileStore } from '#src/file-store.ts';

const [folder = '', count = '1', startMs = '0'] = process.argv.slice(2);
const betweenMs = 3;
const taken: number[] = [];
for (let n = 0; n < Number(count); n++) {
  while (Date.now() < Number(startMs) + n * betweenMs);
  try {
    new FileStore(`${folder}/${n}`);
    taken.push(n);
  } catch {
    // Another process has it.
  }
}
console.log(JSON.stringify(taken));
process.stdin.resume();
