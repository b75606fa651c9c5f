/// What a developer may have misconfigured, in sentences.
final class Check {
    private let options: Options
    private let platform: Platform
    private let connection: Connection
    private let clock: ServerClock
    private var found: [Finding] = []

    init(_ options: Options, _ platform: Platform, _ connection: Connection, _ clock: ServerClock) {
        self.options = options
        self.platform = platform
        self.connection = connection
        self.clock = clock
    }

    func run(done: @escaping ([Finding]) -> Void) {
        // A batch without events is refused with 400 once the key was accepted.
        connection.ask("/sdk/events", ["events": []], proof: "accepted") { [self] outcome in
            hostAndKey(outcome)
            associations((options.linkHosts ?? []).prefix(Limits.checkedHostsMax)) { [self] in done(found) }
        }
    }

    private func hostAndKey(_ outcome: Outcome) {
        let host = options.host
        let status = outcome.status
        let isSignpost = outcome.body["error"].object != nil
        if outcome.reply == nil {
            add("host", false, "\(host) does not answer. Check the address, its certificate and this device's network.")
        } else if !isSignpost {
            add("host", false, "\(host) answers, but is no Signpost server (status \(status)).")
        } else {
            add("host", true, "\(host) is a Signpost server.")
        }
        if !isSignpost { return }
        let shown = "The key that ends with \(options.apiKey.suffix(4))"
        if status == 400 || status == 429 { add("key", true, "\(shown) is accepted.") }
        else { add("key", false, "\(shown) is refused (status \(status)). Compare it with the app's key in the dashboard.") }
        let offset = clock.offsetMs ?? 0
        let minutes = Int((Double(abs(offset)) / 60_000).rounded())
        let direction = offset > 0 ? "behind" : "ahead of"
        if minutes == 0 { add("clock", true, "The clock of this device agrees with the server.") }
        else {
            add("clock", false, "The clock of this device is \(minutes) minutes \(direction) the server's. Events are sent with the server's time.")
        }
    }

    private func associations(_ hosts: ArraySlice<String>, done: @escaping () -> Void) {
        guard let host = hosts.first else { return done() }
        let url = "https://\(host)/.well-known/apple-app-site-association"
        platform.send(url, headers: [:], body: nil, timeoutMs: Limits.requestTimeoutMs) { [self] answer in
            if case .reply(let reply) = answer {
                let ok = reply.status == 200
                add("association", ok, ok
                    ? "\(url) is served: iOS opens links of \(host) in the app that it names."
                    : "\(url) answers \(reply.status): iOS opens links of \(host) in the browser. Set its team and bundle id in the app's settings.")
            } else {
                add("association", false, "\(host) does not answer. Check the address and its certificate.")
            }
            associations(hosts.dropFirst(), done: done)
        }
    }

    private func add(_ part: String, _ ok: Bool, _ text: String) { found.append(Finding(part: part, ok: ok, text: text)) }
}
