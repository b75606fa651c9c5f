import Foundation

public let sdkVersion = "0.1.0"

/// One per app.
/// - Parameter folder: of its own, on the device, excluded from backups: a restored one would make two devices of one.
/// - Parameter device: what the device says about itself, with the field names of POST /sdk/match; `platform` is required.
public func createSignpost(_ options: Options, folder: URL, device: [String: JSON]) -> Signpost {
    let signpost = Signpost(options, folder: folder, device: device)
    // It opens even if no method is called.
    Task { await signpost.begin() }
    return signpost
}

public actor Signpost {
    private let platform: LivePlatform
    private let client: Client
    private var hasBegun = false
    private var listenersMade = 0

    init(_ options: Options, folder: URL, device: [String: JSON]) {
        let platform = LivePlatform(folder, device)
        self.platform = platform
        client = Client(options, platform)
    }

    func begin() {
        if hasBegun { return }
        hasBegun = true
        platform.owner = self
        client.start()
    }

    /// Every link, cold, warm and deferred; those that came before the first listener are replayed. The result ends it.
    @discardableResult
    public nonisolated func onLink(_ listener: @escaping @MainActor @Sendable (Link) -> Void) -> @Sendable () -> Void {
        let stream = links
        let task = Task { @MainActor in for await link in stream { listener(link) } }
        return { task.cancel() }
    }

    /// The same as a stream. Each stream is for one loop.
    public nonisolated var links: AsyncStream<Link> {
        AsyncStream(bufferingPolicy: .bufferingNewest(Limits.untakenLinksMax)) { continuation in
            Task { await listen(continuation) }
        }
    }

    private func listen(_ continuation: AsyncStream<Link>.Continuation) {
        begin()
        listenersMade += 1
        let id = listenersMade
        continuation.onTermination = { [weak self] _ in Task { await self?.stop(id) } }
        client.listen(id) { continuation.yield($0) }
    }

    private func stop(_ id: Int) { client.stop(id) }

    /// Resolves the URL that opened the app; nil if it is not a link of the app.
    @discardableResult
    public func open(_ url: URL) async -> Link? { await answer { $0.open(url.absoluteString, done: $1) } }

    /// Takes text that the person has pasted; the SDK never reads the pasteboard.
    @discardableResult
    public func pasted(_ text: String) async -> Link? { await answer { $0.pasted(text, done: $1) } }

    public var firstLink: Link? {
        begin()
        return client.firstLink
    }

    public var lastLink: Link? {
        begin()
        return client.lastLink
    }

    /// Returns once the event is stored on the device.
    public func track(_ name: String, properties: [String: JSON]? = nil, revenue: Revenue? = nil) {
        begin()
        client.track(name, properties: properties, revenue: revenue, atMs: platform.now())
    }

    public func identify(_ userId: String) throws {
        begin()
        try client.identify(userId)
    }

    /// Forgets the user, for a logout.
    public func reset() throws {
        begin()
        try client.identify(nil)
    }

    /// Throws if the server refuses the link, or can't be reached and there is no fallback link.
    public func createLink(path: String, campaign: String? = nil, data: [String: JSON]? = nil) async throws -> CreatedLink {
        try await answer { $0.createLink(path: path, campaign: campaign, data: data, done: $1) }.get()
    }

    public func setConsent(_ consent: Consent) throws {
        begin()
        try client.setConsent(consent)
    }

    /// Sends what is queued, unless a wait is due.
    @discardableResult
    public func flush() async -> Flushed { await answer { $0.flush(done: $1) } }

    /// What is misconfigured, in sentences.
    public func check() async -> [Finding] { await answer { $0.check(done: $1) } }

    private func answer<T: Sendable>(_ work: (Client, @escaping (T) -> Void) -> Void) async -> T {
        begin()
        return await withCheckedContinuation { continuation in work(client) { continuation.resume(returning: $0) } }
    }

    fileprivate func run(_ work: OnActor) { work.run() }
}

/// Work of the core that waits elsewhere. Only the actor runs it.
private struct OnActor: @unchecked Sendable {
    let run: () -> Void
}

/// A closure of the core and its argument.
private struct Waiting: @unchecked Sendable {
    let done: (Answer) -> Void
}

/// Files, URLSession and tasks.
private final class LivePlatform: Platform {
    weak var owner: Signpost?
    let store: Store
    private let http = HTTPSend()
    private let fields: [String: JSON]

    init(_ folder: URL, _ fields: [String: JSON]) {
        store = FileStore(folder)
        self.fields = fields
    }

    func send(_ url: String, headers: [String: String], body: String?, timeoutMs: Int, done: @escaping (Answer) -> Void) {
        let waiting = Waiting(done: done)
        Task { [owner, http] in
            let answer = await http.send(url, headers: headers, body: body, timeoutMs: timeoutMs)
            await owner?.run(OnActor { waiting.done(answer) })
        }
    }

    func now() -> Int { Int(Date().timeIntervalSince1970 * 1_000) }

    func random() -> Double { Double.random(in: 0..<1) }

    func newId(_ kind: String) -> String { "\(kind)-\(UUID().uuidString.lowercased())" }

    func timer(_ delayMs: Int, fire: @escaping () -> Void) {
        let work = OnActor(run: fire)
        Task { [owner] in
            try? await Task.sleep(nanoseconds: UInt64(delayMs) * 1_000_000)
            await owner?.run(work)
        }
    }

    func device() -> [String: JSON] { fields }

    func referrer() -> String? { nil }
}
