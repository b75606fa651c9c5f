/**
 * An SDK gateway of a simulated machine, with devices that request matches: the real matching and claims, on simulated
 * stores.
 */
import type { ArchiveQuestion } from '#common/attribution/click-archive.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { utmFrom } from '#common/campaign-fields.ts';
import { Rejection } from '#common/http/rejection.ts';
import type { AppSnapshot } from '#common/links/app-snapshot.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { Claims } from '#gateway/match/claims.ts';
import { Matching, type MatchingParts } from '#gateway/match/matching.ts';
import { type ClickFacts, clickAddress, clickApp, clickLink, windowHours } from './click-line.ts';
import type { Machine } from './machine.ts';
import type { Matches } from './matches.ts';
import type { Program } from './program.ts';
import type { SimulatedPostgres } from './simulated-postgres.ts';
import type { SimulatedRedis } from './simulated-redis.ts';

export interface GatewayOptions {
  readonly machine: Machine;
  readonly postgres: SimulatedPostgres;
  readonly redis: SimulatedRedis;
  /** Average milliseconds between two requests. */
  readonly turnMs: number;
  readonly isLoaded: () => boolean;
  /** Clicks that devices may have made. */
  readonly clicks: readonly ClickFacts[];
  readonly matches: Matches;
}

const devicesMax = 6;
const namelessShare = 0.1;
const namedClickShare = 0.7;
/** Devices compete for the same few clicks. */
const clicksWanted = 5;

export class GatewayProgram {
  program: Program | undefined;
  readonly #options: GatewayOptions;

  constructor(options: GatewayOptions) {
    this.#options = options;
  }

  start(): void {
    const program = this.#options.machine.start('gateway');
    this.program = program;
    program.enter(() => this.#run(program));
  }

  #run(program: Program): void {
    const { machine, postgres, redis: server, clicks, turnMs, isLoaded } = this.#options;
    const { scheduler, time } = program;
    const { random } = scheduler;
    const redis = server.of(program, machine);
    const parts = {
      clicks: new RecentClicks(redis, time),
      claims: new Claims(postgres.claimsOf(program, machine), time),
      opens: { recorded: (url: string) => url },
      addresses: { ofDevice: () => clickAddress },
      // ClickHouse has all clicks, but not their claims.
      archive: {
        find: (question: ArchiveQuestion) => {
          const click = clicks.find(({ click_id }) => click_id === question.click_id);
          return Promise.resolve(click === undefined ? 'unknown' : { click: recentOf(click), claimed_by: '' });
        },
      },
      // Match records are written by the edge slots instead.
      log: { isOpen: true, write: () => Promise.resolve(true) },
      clock: time.now,
    } as unknown as MatchingParts;
    const matching = new Matching(parts);
    const turn = () => {
      if (isLoaded() && clicks.length > 0) {
        const device = random.next() < namelessShare ? '' : `device-${random.between(1, devicesMax)}`;
        const wanted = clicks.slice(-clicksWanted);
        const fields = {
          platform: 'ios' as const,
          os_version: '17.5',
          ...(random.next() < namedClickShare ? { click_id: random.pick(wanted).click_id } : {}),
        };
        const asker = { app: app, ip: clickAddress, device, user_agent: '', install_name: '' };
        matching.match(fields, asker).then(
          (match) => {
            if (!(match instanceof Rejection)) this.#options.matches.note(match, device, scheduler.now);
          },
          (error: unknown) => {
            // Redis failed between two steps: the answer is 500.
            if (!(error instanceof PostgresUnavailable)) program.failed(error);
          },
        );
      }
      next();
    };
    const next = () => void scheduler.after(-Math.log(1 - random.next()) * turnMs, () => program.enter(turn));
    next();
  }
}

function recentOf({ click_id, time }: ClickFacts) {
  const utm = utmFrom(() => '');
  return { click_id, app_id: clickApp, link_id: clickLink, time, query: '', campaign: '', ...utm, is_bot: false };
}

const settings = { ...windowHours, min_confidence: 0.3, privacy_mode: 'full_ip' as const, conversion_events: [] };
const app = { app_id: clickApp, version: 1, settings } as unknown as AppSnapshot;
