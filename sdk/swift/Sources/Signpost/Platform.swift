/// What the core needs from where it runs. Callbacks come where the core runs: on its actor.
protocol Platform: AnyObject {
    var store: Store { get }

    /// A POST, or a GET without a body.
    func send(_ url: String, headers: [String: String], body: String?, timeoutMs: Int, done: @escaping (Answer) -> Void)

    /// The wall clock, epoch milliseconds.
    func now() -> Int

    /// From 0 inclusive to 1 exclusive.
    func random() -> Double

    /// - Parameter kind: `dev`, `ins` or `evt`.
    func newId(_ kind: String) -> String

    /// Calls back once, by a clock that does not jump.
    func timer(_ delayMs: Int, fire: @escaping () -> Void)

    /// What the device says about itself, with the field names of POST /sdk/match.
    func device() -> [String: JSON]

    /// The Play Store's referrer, in tests only.
    func referrer() -> String?
}

/// Texts by key, kept on the device.
protocol Store: AnyObject {
    func get(_ key: String) -> String?

    /// Returns once the text survives the end of the process; throws if there is no room.
    func set(_ key: String, _ text: String) throws

    func remove(_ keys: some Sequence<String>)

    func keys() -> [String]
}

enum Answer: Sendable {
    /// Headers by their lower-case names; the body is nil if it was no JSON.
    case reply(Reply)
    /// The server certainly did not get the request.
    case unsent
    /// It may have got it.
    case lost
}

struct Reply: Sendable {
    let status: Int
    let headers: [String: String]
    let body: JSON?
}
