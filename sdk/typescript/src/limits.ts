/** Every limit of the SDK. All SDKs have the same. */
export const QUEUE_EVENTS_MAX = 1_000;
export const BATCH_EVENTS_MAX = 100;
/** Browsers allow 64 KiB for requests that outlive their page. */
export const BATCH_BYTES_MAX = 60_000;
/** What a link of 1,000 bytes per second, the least that the server waits for, carries before a request times out. */
export const BATCH_BYTES_MIN = 10_000;
/** How much larger a batch may be after each answer, once one was too slow. */
export const BATCH_BYTES_STEP = 5_000;
export const BATCH_WAIT_MS = 5_000;
export const PROPERTIES_BYTES_MAX = 32_768;
export const NAME_CHARS_MAX = 128;
export const BACKOFF_MIN_MS = 1_000;
export const BACKOFF_MAX_MS = 300_000;
export const RETRY_AFTER_MAX_MS = 3_600_000;
/** The server remembers event ids for 24 hours. */
export const IN_DOUBT_MAX_MS = 23 * 3_600_000;
export const REQUEST_TIMEOUT_MS = 15_000;
/** An app that is opened by a link calls `open` within this time; the first match then includes the URL. */
export const FIRST_OPEN_WAIT_MS = 250;
/** With the waits below, all tries are within 10 s, in which the server takes them as one opening. */
export const OPEN_TRIES_MAX = 3;
export const OPEN_TIMEOUT_MS = 4_000;
export const OPEN_BACKOFF_MIN_MS = 500;
export const PENDING_CLICK_TRIES_MAX = 10;
export const UNTAKEN_LINKS_MAX = 10;
/** A deferred link that no listener took is offered again for this long. */
export const UNTAKEN_LINK_MAX_MS = 24 * 3_600_000;
/** The server's clock is known to a minute, the length of a rate limit's window. */
export const CLOCK_TOLERANCE_MS = 90_000;
/** Clocks are set back by less than this all the time; it is far less than what is left of the 24 hours. */
export const CLOCK_BACK_MAX_MS = 60_000;
