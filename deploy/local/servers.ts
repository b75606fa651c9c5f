/** The servers that run on this machine when no URL says where others are. */
export type { LocalServer } from './local-server.ts';
export { startNats } from './nats.ts';
export { startPostgres } from './postgres.ts';
export { startRedis } from './redis.ts';
