/** The probe as a process, so that it measures the service and not the abuse next to it. */
import { Probe } from './probe.ts';

const [port = '', target = '', authorization = ''] = process.argv.slice(2);
const probe = new Probe(Number(port), target, { authorization });
process.once('message', () => {
  void probe.stop().then((latencies) => {
    process.send?.(latencies);
    process.disconnect();
  });
});
process.send?.('asking');
