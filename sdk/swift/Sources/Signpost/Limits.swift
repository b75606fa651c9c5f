/// Every limit of the SDK. All SDKs have the same.
enum Limits {
    static let queueEventsMax = 1_000
    static let batchEventsMax = 100
    static let batchBytesMax = 60_000
    /// What a link of 1,000 bytes per second, the least that the server waits for, carries before a request times out.
    static let batchBytesMin = 10_000
    /// How much larger a batch may be after each answer, once one was too slow.
    static let batchBytesStep = 5_000
    static let contextBytesMax = 2_000
    static let batchWaitMs = 5_000
    static let propertiesBytesMax = 32_768
    static let nameCharsMax = 128
    static let backoffMinMs = 1_000
    static let backoffMaxMs = 300_000
    static let retryAfterMaxMs = 3_600_000
    /// The server remembers event ids for 24 hours.
    static let inDoubtMaxMs = 23 * 3_600_000
    /// Phones correct their clocks by seconds all the time.
    static let clockBackMaxMs = 60_000
    static let requestTimeoutMs = 15_000
    /// An app that is opened by a link calls `open` within this time; the first match then includes the URL.
    static let firstOpenWaitMs = 250
    /// With the waits below, all tries are within 10 s, in which the server takes them as one opening.
    static let openTriesMax = 3
    static let openTimeoutMs = 4_000
    static let openBackoffMinMs = 500
    static let pendingClickTriesMax = 10
    static let untakenLinksMax = 10
    /// A deferred link that no listener took is offered again for this long.
    static let untakenLinkMaxMs = 24 * 3_600_000
    /// The server's clock is known to a minute, the length of a rate limit's window.
    static let clockToleranceMs = 90_000
    static let checkedHostsMax = 10
    static let replyBytesMax = 1_048_576
}
