/** A process that only learns links, for tests that kill it. Its settings are a JSON argument. */
import { LinkLearner } from '#api/migration/link-learner.ts';
import { systemClock } from '#common/clock.ts';
import { resolveWith } from '#common/host-addresses.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { Tenancy } from '#common/stores/tenancy.ts';

const { redisUrl, databaseUrl, dnsServer, allowed } = JSON.parse(process.argv[2] ?? '');
const redis = new Redis({ url: redisUrl, name: 'learner' });
await redis.connect();
const quota = { limit: 1, remaining: 1, resetEpochSeconds: 0 };
const learner = new LinkLearner({
  redis,
  tenancy: new Tenancy(new Postgres({ url: databaseUrl, name: 'learner' })),
  limiter: { chargeApart: async () => ({ quota, rejection: null }) },
  clock: systemClock,
  log: { warn: (fields, message) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`) },
  rules: { resolve: resolveWith([dnsServer]), reachable: new ReachableAddresses([allowed]), allowsHttp: true },
  maySend: () => true,
});
await learner.start();
process.stdout.write('started\n');
