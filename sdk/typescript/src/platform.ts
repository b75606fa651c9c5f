/** What the client needs from the platform that it runs on, and how its parts see it. */
import type { State } from './kept-state.ts';
import type { CreatedLink, Link, NewLink, Options } from './types.ts';

export type MaybePromise<T> = T | Promise<T>;

/** Texts by key, kept on the device. */
export interface Store {
  get(key: string): MaybePromise<string | null | undefined>;
  /** Resolves once the text survives the end of the process. @throws if there is no room. */
  set(key: string, text: string): MaybePromise<void>;
  remove(keys: readonly string[]): MaybePromise<void>;
  keys(): MaybePromise<readonly string[]>;
}

export interface Reply {
  readonly status: number;
  /** A header by its lower-case name. */
  readonly header: (name: string) => string | null;
  /** Null if it was no JSON. */
  readonly body: unknown;
}

/** `unsent`: the server certainly did not get the request. `lost`: it may have. */
export type Answer = Reply | 'unsent' | 'lost';

/** What an answer means. */
export interface Outcome {
  readonly kind:
    | 'ok'
    /** The server refused this request for what it says: 400 or 413. */
    | 'refused'
    /** The server did not do what was asked. */
    | 'declined'
    /** Nor will it, for a wrong key or a wrong address. */
    | 'hopeless'
    /** It may have done it. */
    | 'in_doubt';
  readonly reply: Reply | null;
  readonly retryAfterMs: number;
  readonly body: Readonly<Record<string, unknown>>;
  /** The server's clock turned out to be another. */
  readonly clockChanged: boolean;
}

/** The client, as its parts see it. */
export interface ClientHost {
  readonly options: Options;
  readonly platform: Platform;
  readonly connection: { ask(path: string, fields: object, proof: string): Promise<Outcome> };
  readonly state: () => State;
  /** Sends what the platform says about the device with the fields. Null if the consent changed meanwhile. */
  readonly ask: (path: string, fields: object, proof: string, timeoutMs?: number) => Promise<Outcome | null>;
  /** Whether the outcome is final; if not, the wait has begun. */
  readonly isFinal: (outcome: Outcome) => boolean;
  readonly save: () => Promise<void>;
  readonly feed: { deliver(link: Link): void };
  /** Then looks for work. */
  readonly later: (delayMs: number, fire: () => void) => void;
  /** An opening is being resolved, which is the first match. */
  readonly isResolving: () => boolean;
}

export interface FirstOpen {
  /** Does one piece of work. @returns whether there may be more; null if there is none. */
  step(): Promise<boolean | null>;
}

/** The part of the client that pages load when they need it. */
export interface LinkWork {
  resolveLink(host: ClientHost, text: string, isPasted: boolean): Promise<Link | null>;
  createLink(host: ClientHost, link: NewLink): Promise<CreatedLink>;
}

/** What the device says about itself, with the field names of POST /sdk/match. */
export type DeviceFields = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface Platform {
  /** A server has no device id of its own. */
  readonly kind: 'device' | 'page' | 'server';
  /** Devices only. */
  readonly firstOpen?: (host: ClientHost) => FirstOpen;
  readonly links: () => MaybePromise<LinkWork>;
  readonly store: Store;
  readonly send: (
    url: string,
    headers: Readonly<Record<string, string>>,
    body: string,
    timeoutMs: number,
  ) => Promise<Answer>;
  /** The wall clock, epoch milliseconds. */
  readonly now: () => number;
  /** From 0 inclusive to 1 exclusive. */
  readonly random: () => number;
  readonly newId: (kind: 'dev' | 'ins' | 'evt') => string;
  /** Calls back once, by a clock that does not jump. */
  readonly timer: (fire: () => void, delayMs: number) => unknown;
  /** Runs the work unless another tab or process is running it. @returns whether it ran. */
  readonly exclusively: (work: () => Promise<void>) => Promise<boolean>;
  readonly device: () => MaybePromise<DeviceFields>;
}
