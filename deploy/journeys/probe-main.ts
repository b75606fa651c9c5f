/** The probe in a process of its own, so that what it measures is the service and not the abuse beside it. */
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
