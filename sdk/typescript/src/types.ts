/** The public types, and what the core needs from the platform that it runs on. */

/** `links`: deep links work, but nothing that identifies the device is kept or sent. */
export type Consent = 'all' | 'links' | 'none';

export interface Link {
  /** The URL that opened the app, or the short link that led to the store. */
  readonly url: string;
  readonly path: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly campaign: string | null;
  readonly matchType: 'url' | 'click_id' | 'install_referrer' | 'clipboard' | 'probabilistic';
  /** False for a match by score: such a link may be another person's. */
  readonly guaranteed: boolean;
  readonly confidence: number;
  /** The link was opened before the app was installed. */
  readonly isDeferred: boolean;
  /** The first link of this installation. */
  readonly isFirst: boolean;
}

/** Events that were tracked but not sent, by reason; since the installation. */
export interface Dropped {
  /** The queue was full. */
  readonly full: number;
  /** Whether the server has them is unknown, and it may have forgotten their ids. */
  readonly expired: number;
  /** The server or the SDK refused them. */
  readonly rejected: number;
  /** There was no consent, or it was withdrawn before they were sent. */
  readonly consent: number;
}

export interface Flushed {
  /** Events that are still in the queue. */
  readonly queued: number;
  readonly dropped: Dropped;
}

export interface Details {
  readonly properties?: Readonly<Record<string, unknown>> | undefined;
  readonly revenue?: { readonly amount: string | number; readonly currency: string } | undefined;
}

export interface NewLink {
  readonly path: string;
  readonly campaign?: string | undefined;
  readonly data?: Readonly<Record<string, unknown>> | undefined;
}

export interface CreatedLink {
  readonly url: string;
  /** The server could not be reached: the URL is the fallback link with the fields in its query. */
  readonly isLong: boolean;
}

export interface Finding {
  readonly part: 'host' | 'key' | 'clock' | 'association';
  readonly ok: boolean;
  /** A sentence for the developer. */
  readonly text: string;
}

export interface Options {
  /** Origin of the API: `https://api.example.com`. */
  readonly host: string;
  /** The app's key, `lk_…`. */
  readonly apiKey: string;
  /** Default: the last choice, else `all`. */
  readonly consent?: Consent | undefined;
  /** Hosts of the app's short links; if set, `open` ignores other URLs. */
  readonly linkHosts?: readonly string[] | undefined;
  /** A short link that `createLink` extends if the server can't be reached. */
  readonly fallbackLink?: string | undefined;
}

export interface Signpost {
  /** Every link, cold, warm and deferred; those that came before the first listener are replayed. @returns a function that ends it. */
  onLink(listener: (link: Link) => void): () => void;
  /** The same as a stream. */
  readonly links: AsyncIterable<Link>;
  /** Resolves the URL that opened the app; null if it is not a link of the app. */
  open(url: string): Promise<Link | null>;
  firstLink(): Promise<Link | null>;
  lastLink(): Promise<Link | null>;
  /** Resolves once the event is stored on the device. */
  track(name: string, details?: Details): Promise<void>;
  identify(userId: string): Promise<void>;
  /** Forgets the user, for a logout. */
  reset(): Promise<void>;
  createLink(link: NewLink): Promise<CreatedLink>;
  setConsent(consent: Consent): Promise<void>;
  /** Takes text that the person has pasted; the SDK never reads the pasteboard. */
  pasted(text: string): Promise<Link | null>;
  /** Sends what is queued, unless a wait is due. */
  flush(): Promise<Flushed>;
  /** What is misconfigured, in sentences. */
  check(): Promise<readonly Finding[]>;
}
