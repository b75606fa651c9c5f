/// `links`: deep links work, but nothing that identifies the device is kept or sent.
public enum Consent: String, Codable, Sendable { case all, links, none }

public struct Link: Codable, Sendable, Equatable {
    /// The URL that opened the app, or the short link that led to the store.
    public let url: String
    public let path: String
    public let data: [String: JSON]
    public let campaign: String?
    /// `url`, `click_id`, `install_referrer`, `clipboard` or `probabilistic`.
    public let matchType: String
    /// False for a match by score: such a link may be another person's.
    public let guaranteed: Bool
    public let confidence: Double
    /// The link was opened before the app was installed.
    public let isDeferred: Bool
    /// The first link of this installation.
    public let isFirst: Bool
}

/// Events that were tracked but not sent, since the installation.
public struct Dropped: Codable, Sendable, Equatable {
    /// The queue was full.
    public internal(set) var full = 0
    /// Whether the server has them is unknown, and it may have forgotten their ids.
    public internal(set) var expired = 0
    /// The server or the SDK refused them.
    public internal(set) var rejected = 0
    /// There was no consent, or it was withdrawn before they were sent.
    public internal(set) var consent = 0
}

public struct Flushed: Sendable, Equatable {
    /// Events that are still in the queue.
    public let queued: Int
    public let dropped: Dropped
}

public struct Revenue: Sendable {
    /// A decimal, `19.99`.
    public let amount: String
    public let currency: String

    public init(_ amount: String, _ currency: String) {
        self.amount = amount
        self.currency = currency
    }
}

public struct CreatedLink: Sendable, Equatable {
    public let url: String
    /// The server could not be reached: the URL is the fallback link with the fields in its query.
    public let isLong: Bool
}

public struct Finding: Sendable, Equatable {
    /// `host`, `key`, `clock` or `association`.
    public let part: String
    public let ok: Bool
    /// A sentence for the developer.
    public let text: String
}

/// The link was not created, and there is no fallback link.
public struct LinkNotCreated: Error, Sendable, CustomStringConvertible {
    public let description: String
}

public struct Options: Sendable {
    /// Origin of the API: `https://api.example.com`.
    public var host: String
    /// The app's key, `lk_…`.
    public var apiKey: String
    /// Default: the last choice, else `all`.
    public var consent: Consent?
    /// Hosts of the app's short links; if set, `open` ignores other URLs.
    public var linkHosts: [String]?
    /// A short link that `createLink` extends if the server can't be reached.
    public var fallbackLink: String?

    public init(host: String, apiKey: String, consent: Consent? = nil, linkHosts: [String]? = nil, fallbackLink: String? = nil) {
        self.host = host
        self.apiKey = apiKey
        self.consent = consent
        self.linkHosts = linkHosts
        self.fallbackLink = fallbackLink
    }
}
