import Foundation

/// What is kept on the device besides the queue.
struct State: Codable {
    struct Untaken: Codable {
        let link: Link
        let at: Int
    }

    var consent: Consent?
    /// The first match was answered.
    var opened: Bool?
    var installed: Bool?
    var deviceId: String?
    var installId: String?
    /// Of the first match.
    var matchId: String?
    var userId: String?
    var firstLink: Link?
    var lastLink: Link?
    /// A deferred link that no listener took yet, and since when.
    var untaken: Untaken?
    var dropped: Dropped?

    enum CodingKeys: String, CodingKey {
        case consent, opened, installed, untaken, dropped
        case deviceId = "device_id"
        case installId = "install_id"
        case matchId = "match_id"
        case userId = "user_id"
        case firstLink = "first_link"
        case lastLink = "last_link"
    }

    /// Unreadable state starts over.
    static func load(_ store: Store) -> State {
        store.get("state").flatMap { try? JSONDecoder().decode(State.self, from: Data($0.utf8)) } ?? State()
    }

    /// Without full consent only the choice is kept, and that the first opening is over.
    func save(_ store: Store) throws {
        try store.set("state", textOf(consent == .all ? self : State(consent: consent, opened: opened)))
    }
}
