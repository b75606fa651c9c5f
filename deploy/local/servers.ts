/** The servers that run on this machine if no URL is configured for them. */
export type { LocalServer } from './local-server.ts';
export { startNats } from './nats.ts';
export { startPostgres } from './postgres.ts';
export { startRedis } from './redis.ts';
