/// Hands links to the app. Those that come before the first listener wait for it.
final class LinkFeed {
    private let onTaken: () -> Void
    private var listeners: [Int: (Link) -> Void] = [:]
    private var untaken: [Link] = []

    init(onTaken: @escaping () -> Void) { self.onTaken = onTaken }

    func listen(_ id: Int, _ listener: @escaping (Link) -> Void) {
        listeners[id] = listener
        let waiting = untaken
        untaken = []
        for link in waiting { deliver(link) }
    }

    func stop(_ id: Int) { listeners[id] = nil }

    func deliver(_ link: Link) {
        if listeners.isEmpty {
            untaken = (untaken + [link]).suffix(Limits.untakenLinksMax)
            return
        }
        for (_, listener) in listeners.sorted(by: { $0.key < $1.key }) { listener(link) }
        onTaken()
    }
}
