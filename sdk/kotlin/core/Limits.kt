package signpost

/** Every limit of the SDK. All SDKs have the same. */
internal object Limits {
    const val QUEUE_EVENTS_MAX = 1_000
    const val BATCH_EVENTS_MAX = 100
    const val BATCH_BYTES_MAX = 60_000

    /** What a link of 1,000 bytes per second, the least that the server waits for, carries before a request times out. */
    const val BATCH_BYTES_MIN = 10_000

    /** How much larger a batch may be after each answer, once one was too slow. */
    const val BATCH_BYTES_STEP = 5_000
    const val CONTEXT_BYTES_MAX = 2_000
    const val BATCH_WAIT_MS = 5_000L
    const val PROPERTIES_BYTES_MAX = 32_768
    const val NAME_CHARS_MAX = 128
    const val BACKOFF_MIN_MS = 1_000L
    const val BACKOFF_MAX_MS = 300_000L
    const val RETRY_AFTER_MAX_MS = 3_600_000L

    /** The server remembers event ids for 24 hours. */
    const val IN_DOUBT_MAX_MS = 23 * 3_600_000L

    /** Phones correct their clocks by seconds all the time. */
    const val CLOCK_BACK_MAX_MS = 60_000L
    const val REQUEST_TIMEOUT_MS = 15_000L

    /** An app that is opened by a link calls `open` within this time; the first match then includes the URL. */
    const val FIRST_OPEN_WAIT_MS = 250L

    /** With the waits below, all tries are within 10 s, in which the server takes them as one opening. */
    const val OPEN_TRIES_MAX = 3
    const val OPEN_TIMEOUT_MS = 4_000L
    const val OPEN_BACKOFF_MIN_MS = 500L
    const val PENDING_CLICK_TRIES_MAX = 10
    const val UNTAKEN_LINKS_MAX = 10

    /** A deferred link that no listener took is offered again for this long. */
    const val UNTAKEN_LINK_MAX_MS = 24 * 3_600_000L

    /** The server's clock is known to a minute, the length of a rate limit's window. */
    const val CLOCK_TOLERANCE_MS = 90_000L
    const val REFERRER_WAIT_MS = 5_000L
    const val CHECKED_HOSTS_MAX = 10
    const val REPLY_BYTES_MAX = 1_048_576
    const val REQUESTS_AT_ONCE_MAX = 4
    const val REQUESTS_WAITING_MAX = 100
    const val JSON_DEPTH_MAX = 64
}
