/// The behaviour that all SDKs share, as the vectors describe it; on one actor. One piece of work at a time: the first
/// match, the install, events; a failure makes all of them wait. Links that open the app wait for none of them.
final class Client {
    private let options: Options
    private let platform: Platform
    private let clock: ServerClock
    private let connection: Connection
    private let queue: EventQueue
    private let sending: EventSending
    private let feed: LinkFeed
    private var state = State()
    /// Changes with the consent; an answer to an earlier one is ignored.
    private var generation = 0
    private var isWorking = false
    private var afterWork: [() -> Void] = []
    private var isMatchDue = false
    private var areEventsDue = true
    private var isWaiting = false
    private var isBatchTimed = false
    /// Openings that are being resolved; the first match waits for them.
    private var resolving = 0
    private var pendingTries = 0

    private final class Hooks {
        var drop: (WritableKeyPath<Dropped, Int>, Int) -> Void = { _, _ in }
        var taken: () -> Void = {}
    }

    init(_ options: Options, _ platform: Platform) {
        let hooks = Hooks()
        self.options = options
        self.platform = platform
        clock = ServerClock { [unowned platform] in platform.now() }
        connection = Connection(platform, clock, options)
        queue = EventQueue(platform.store) { hooks.drop($0, $1) }
        sending = EventSending(queue, connection, clock) { hooks.drop(\.rejected, $0) }
        feed = LinkFeed { hooks.taken() }
        hooks.drop = { [unowned self] in drop($0, $1) }
        hooks.taken = { [unowned self] in taken() }
    }

    func start() {
        state = State.load(platform.store)
        // Without room, what is tracked until there is some is dropped and counted.
        try? become(options.consent ?? state.consent ?? .all)
        if let untaken = state.untaken, (0..<Limits.untakenLinkMaxMs).contains(platform.now() - untaken.at) {
            feed.deliver(untaken.link)
        }
        matchLater(Limits.firstOpenWaitMs)
    }

    func listen(_ id: Int, _ listener: @escaping (Link) -> Void) { feed.listen(id, listener) }

    func stop(_ id: Int) { feed.stop(id) }

    func open(_ url: String, done: @escaping (Link?) -> Void) {
        resolve(evidenceOf(url, hosts: options.linkHosts), done: done)
    }

    func pasted(_ text: String, done: @escaping (Link?) -> Void) { resolve(pastedEvidence(text), done: done) }

    var firstLink: Link? { state.firstLink }

    var lastLink: Link? { state.lastLink }

    /// - Parameter atMs: when it happened, by the device's clock.
    func track(_ name: String, properties: [String: JSON]?, revenue: Revenue?, atMs: Int) {
        let eventId = platform.newId("evt")
        if state.consent != .all { return drop(\.consent, 1) }
        let isBad = name.isEmpty || name.utf16.count > Limits.nameCharsMax
        if isBad || JSON.object(properties ?? [:]).text.utf8.count > Limits.propertiesBytesMax { return drop(\.rejected, 1) }
        var event: [String: JSON] = ["name": .string(name), "event_id": .string(eventId), "timestamp": .int(clock.atServer(atMs))]
        event["properties"] = properties.map(JSON.object)
        event["revenue"] = revenue.map { ["amount": .string($0.amount), "currency": .string($0.currency)] }
        event["user_id"] = state.userId.map(JSON.string)
        sending.add(event)
        if queue.keys().count >= Limits.batchEventsMax { eventsDue() } else { batchLater() }
    }

    /// - Parameter userId: nil forgets the user.
    func identify(_ userId: String?) throws {
        state.userId = userId
        try state.save(platform.store)
    }

    func createLink(path: String, campaign: String?, data: [String: JSON]?, done: @escaping (Result<CreatedLink, LinkNotCreated>) -> Void) {
        let otherwise = { [options] (problem: String) in
            if let fallback = options.fallbackLink {
                done(.success(longForm(fallback, path: path, campaign: campaign, data: data)))
            } else {
                done(.failure(LinkNotCreated(description: "The link was not created: \(problem). Set fallbackLink for such cases.")))
            }
        }
        if state.consent == Consent.none { return otherwise("there is no consent") }
        var body: [String: JSON] = ["path": .string(path)]
        body["campaign"] = campaign.map(JSON.string)
        body["data"] = data.map(JSON.object)
        connection.ask("/sdk/links", body, proof: "short_code") { [options] outcome in
            let problem = outcome.body["error"]["message"].string ?? "\(options.host) did not answer"
            if outcome.kind == .ok {
                done(.success(CreatedLink(url: outcome.body["url"].string ?? "", isLong: false)))
            } else if outcome.reply != nil, outcome.status < 500, outcome.status != 429 {
                done(.failure(LinkNotCreated(description: "The link was not created: \(problem)")))
            } else {
                otherwise(problem)
            }
        }
    }

    func setConsent(_ consent: Consent) throws {
        try become(consent)
        run()
    }

    func flush(done: @escaping (Flushed) -> Void) {
        areEventsDue = true
        let send = { [self] in
            afterWork.append { [self] in done(Flushed(queued: queue.keys().count, dropped: state.dropped ?? Dropped())) }
            run()
        }
        if isWorking { afterWork.append(send) } else { send() }
    }

    func check(done: @escaping ([Finding]) -> Void) { Check(options, platform, connection, clock).run(done: done) }

    /// Everything that is kept is erased unless the consent is still complete.
    private func become(_ consent: Consent) throws {
        if consent == state.consent { return }
        generation += 1
        if consent != .all {
            state = State(consent: consent, opened: state.opened, dropped: state.dropped)
            let queued = queue.clear()
            if queued > 0 { drop(\.consent, queued) }
        }
        state.consent = consent
        if consent == .all {
            state.deviceId = state.deviceId ?? platform.newId("dev")
            state.installId = state.installId ?? platform.newId("ins")
        }
        try state.save(platform.store)
    }

    /// Without room, the next change saves it.
    private func trySave() { try? state.save(platform.store) }

    private func drop(_ reason: WritableKeyPath<Dropped, Int>, _ count: Int) {
        var dropped = state.dropped ?? Dropped()
        dropped[keyPath: reason] += count
        state.dropped = dropped
        if state.consent == .all { trySave() }
    }

    private func taken() {
        if state.untaken == nil { return }
        state.untaken = nil
        trySave()
    }

    private func matchLater(_ delayMs: Int) {
        platform.timer(delayMs) { [self] in
            isMatchDue = true
            run()
        }
    }

    private func batchLater() {
        if isBatchTimed { return }
        isBatchTimed = true
        platform.timer(Limits.batchWaitMs) { [self] in
            isBatchTimed = false
            eventsDue()
        }
    }

    private func eventsDue() {
        areEventsDue = true
        run()
    }

    private func wait(_ delayMs: Int) {
        isWaiting = true
        platform.timer(delayMs) { [self] in
            isWaiting = false
            run()
        }
    }

    /// Works until there is nothing to do or a wait is due.
    private func run() {
        if isWorking { return }
        isWorking = true
        proceed {}
    }

    /// Settles what was answered, and takes the next step.
    private func proceed(_ settle: () throws -> Void) {
        do {
            try settle()
            if !isWaiting, try step() { return }
        } catch {
            // The storage failed.
            wait(Limits.backoffMaxMs)
        }
        isWorking = false
        let waiting = afterWork
        afterWork = []
        for next in waiting { next() }
    }

    /// Returns whether a request was begun, after whose answer the work goes on.
    private func step() throws -> Bool {
        let opened = state.opened == true
        if state.consent == Consent.none { return false }
        if !opened, isMatchDue, resolving == 0 {
            match()
            return true
        }
        if state.consent != .all { return false }
        if opened, state.installed != true {
            install()
            return true
        }
        return areEventsDue ? try sendEvents() : false
    }

    private func sendEvents() throws -> Bool {
        let before = generation
        var context: [String: JSON] = [:]
        context["device_id"] = state.deviceId.map(JSON.string)
        context["install_id"] = state.installId.map(JSON.string)
        context["platform"] = platform.device()["platform"]
        let isSending = try sending.send(context, nowMs: platform.now()) { [self] batch, outcome in
            proceed {
                // If the consent was withdrawn meanwhile, the queue is gone.
                if before != generation { return }
                try sending.settle(batch, outcome)
                _ = isFinal(outcome)
            }
        }
        if !isSending { areEventsDue = false }
        return isSending
    }

    /// The first match, without evidence in a URL.
    private func match() {
        ask("/sdk/match", referrer, proof: "match_type", timeoutMs: Limits.requestTimeoutMs) { [self] outcome in
            proceed {
                guard let outcome, isFinal(outcome) else { return }
                if outcome.isPending, pendingTries < Limits.pendingClickTriesMax {
                    pendingTries += 1
                    isMatchDue = false
                    matchLater(outcome.body["retry_after_ms"].int ?? Limits.backoffMinMs)
                } else {
                    _ = answered(outcome.body, Evidence())
                }
            }
        }
    }

    private func install() {
        var fields = referrer
        fields["match_id"] = state.matchId.map(JSON.string)
        fields["user_id"] = state.userId.map(JSON.string)
        ask("/sdk/install", fields, proof: "install_id", timeoutMs: Limits.requestTimeoutMs) { [self] outcome in
            proceed {
                guard let outcome, isFinal(outcome) else { return }
                state.installed = true
                trySave()
            }
        }
    }

    private var referrer: [String: JSON] {
        guard let referrer = platform.referrer(), !referrer.isEmpty else { return [:] }
        return ["install_referrer": .string(referrer)]
    }

    /// If not, the wait begins.
    private func isFinal(_ outcome: Outcome) -> Bool {
        let waitMs = connection.waitMs(outcome)
        if waitMs > 0 { wait(waitMs) }
        return waitMs == 0
    }

    /// `done` gets nil if the consent changed meanwhile.
    private func ask(_ path: String, _ fields: [String: JSON], proof: String, timeoutMs: Int, done: @escaping (Outcome?) -> Void) {
        let before = generation
        var body = platform.device()
        body["device_id"] = state.deviceId.map(JSON.string)
        body["install_id"] = state.installId.map(JSON.string)
        body.merge(fields) { _, given in given }
        connection.ask(path, body, proof: proof, timeoutMs: timeoutMs) { [self] in done(before == generation ? $0 : nil) }
    }

    private func resolve(_ evidence: Evidence?, done: @escaping (Link?) -> Void) {
        guard let evidence else { return done(nil) }
        resolving += 1
        tryOpen(evidence, 1) { [self] link in
            resolving -= 1
            done(link)
            run()
        }
    }

    /// Tries within a few seconds: a link that is resolved later would lead the person away from something else.
    private func tryOpen(_ evidence: Evidence, _ tries: Int, done: @escaping (Link?) -> Void) {
        if state.consent == Consent.none { return done(nil) }
        ask("/sdk/match", evidence.fields, proof: "match_type", timeoutMs: Limits.openTimeoutMs) { [self] outcome in
            guard let outcome else { return done(nil) }
            let isLast = tries == Limits.openTriesMax
            if outcome.kind == .ok, isLast || !outcome.isPending { return done(answered(outcome.body, evidence)) }
            if isLast || outcome.isHopeless || outcome.retryAfterMs > 0 { return done(nil) }
            let limit = Double(Limits.openBackoffMinMs << (tries - 1))
            let delayMs = outcome.body["retry_after_ms"].int ?? Int((platform.random() * limit).rounded())
            platform.timer(delayMs) { [self] in tryOpen(evidence, tries + 1, done: done) }
        }
    }

    /// Takes the answer of a match.
    private func answered(_ body: JSON, _ evidence: Evidence) -> Link? {
        let isFirstOpen = state.opened != true
        if isFirstOpen {
            state.opened = true
            state.matchId = body["match_id"].string
        }
        let isFirst = state.firstLink == nil && (isFirstOpen || state.consent == .all)
        let link = linkOf(body, evidence, isFirstOpen: isFirstOpen, isFirst: isFirst)
        if let link {
            state.firstLink = state.firstLink ?? link
            state.lastLink = link
            if link.isDeferred { state.untaken = State.Untaken(link: link, at: platform.now()) }
        }
        trySave()
        if let link { feed.deliver(link) }
        return link
    }
}
