/// The difference between the device's clock and the server's, from the header X-RateLimit-Reset: at most a minute after now.
final class ServerClock {
    private let deviceNow: () -> Int
    /// What to add to the device's clock; nil before the first answer.
    private(set) var offsetMs: Int?

    init(_ deviceNow: @escaping () -> Int) { self.deviceNow = deviceNow }

    func now() -> Int { atServer(deviceNow()) }

    func atServer(_ deviceMs: Int) -> Int { deviceMs + (offsetMs ?? 0) }

    /// Returns whether the difference has changed, so that a refused time may be accepted now.
    func learn(_ reset: String?) -> Bool {
        guard let seconds = reset.flatMap({ Int($0) }), seconds > 0, seconds < 1 << 40 else { return false }
        let offset = seconds * 1_000 - 30_000 - deviceNow()
        let before = offsetMs ?? 0
        let after = abs(offset) > Limits.clockToleranceMs ? offset : 0
        offsetMs = after
        return abs(after - before) > Limits.clockToleranceMs
    }
}

struct Outcome {
    enum Kind {
        case ok
        /// The server refused this request for what it says: 400 or 413.
        case refused
        /// The server did not do what was asked, now or ever with this key.
        case declined
        /// It may have done it.
        case inDoubt
    }

    let kind: Kind
    let reply: Reply?
    /// The server's clock turned out to be another.
    let clockChanged: Bool

    var body: JSON { reply?.body ?? .null }
    var status: Int { reply?.status ?? 0 }
    /// The named click is not processed yet.
    var isPending: Bool { body["reason"].string == "click_pending" }
    /// A wrong key or a wrong address.
    var isHopeless: Bool { (300..<500).contains(status) && status != 408 && status != 429 }
    var retryAfterMs: Int {
        guard let seconds = reply?.headers["retry-after"].flatMap({ Double($0) }), seconds > 0 else { return 0 }
        return Int(min(Double(Limits.retryAfterMaxMs), seconds * 1_000))
    }
}

/// Sends requests to the server and decides after each answer how long to wait: full jitter, Retry-After, or the longest
/// wait for what only a person can mend.
final class Connection {
    private let platform: Platform
    private let clock: ServerClock
    private let base: String
    private let apiKey: String
    private var failures = 0

    init(_ platform: Platform, _ clock: ServerClock, _ options: Options) {
        self.platform = platform
        self.clock = clock
        apiKey = options.apiKey
        var host = options.host[...]
        while host.hasSuffix("/") { host.removeLast() }
        base = (host.hasSuffix("/v1") ? host : host + "/v1").description
    }

    /// - Parameter proof: a field that the server's own 2xx answer has; a captive portal's has not.
    func ask(_ path: String, _ body: [String: JSON], proof: String, timeoutMs: Int = Limits.requestTimeoutMs, done: @escaping (Outcome) -> Void) {
        let headers = ["content-type": "application/json", "x-api-key": apiKey]
        platform.send(base + path, headers: headers, body: JSON.object(body).text, timeoutMs: timeoutMs) { [clock] answer in
            var reply: Reply?
            if case .reply(let given) = answer { reply = given }
            let clockChanged = clock.learn(reply?.headers["x-ratelimit-reset"])
            done(Outcome(kind: kindOf(answer, proof), reply: reply, clockChanged: clockChanged))
        }
    }

    /// How long to wait after the outcome; 0 for one that is final.
    func waitMs(_ outcome: Outcome) -> Int {
        if outcome.kind == .ok || outcome.kind == .refused {
            failures = 0
            return 0
        }
        if outcome.isHopeless { return Limits.backoffMaxMs }
        let limit = min(Limits.backoffMaxMs, Limits.backoffMinMs << min(failures, 20))
        failures += 1
        return outcome.retryAfterMs + max(1, Int((platform.random() * Double(limit)).rounded()))
    }
}

private func kindOf(_ answer: Answer, _ proof: String) -> Outcome.Kind {
    switch answer {
    case .unsent: return .declined
    case .lost: return .inDoubt
    case .reply(let reply):
        switch reply.status {
        case 200..<300: return reply.body?.object?[proof] != nil ? .ok : .inDoubt
        case 400, 413: return .refused
        case 408, 500...: return .inDoubt
        default: return .declined
        }
    }
}
