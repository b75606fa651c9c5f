import Foundation

/// Events that were sent without an answer, with the times when they were first and last sent.
struct Flight: Codable {
    var keys: [String]
    let since: Int
    let last: Int
}

struct EventBatch {
    let keys: [String]
    let events: [[String: JSON]]
    let flight: Flight?
}

/// The events on the device, one file each. Batches that were sent without an answer are in doubt: they are sent again as
/// they were, and dropped before the server forgets their ids.
final class EventQueue {
    private let store: Store
    private let onDrop: (WritableKeyPath<Dropped, Int>, Int) -> Void

    init(_ store: Store, onDrop: @escaping (WritableKeyPath<Dropped, Int>, Int) -> Void) {
        self.store = store
        self.onDrop = onDrop
    }

    /// In order.
    func keys() -> [String] { store.keys().filter { $0.hasPrefix("e") }.sorted() }

    /// Returns whether there was room.
    func add(_ event: [String: JSON]) -> Bool {
        let keys = keys()
        let number = (keys.last.flatMap { Int($0.dropFirst().prefix(12)) } ?? 0) + 1
        let digits = String(number)
        let key = "e" + String(repeating: "0", count: max(0, 12 - digits.count)) + digits + "-" + (event["event_id"]?.string ?? "")
        let inFlight = Set(flight()?.keys ?? [])
        var free = keys.filter { !inFlight.contains($0) }[...]
        var surplus = keys.count - Limits.queueEventsMax + 1
        while true {
            let dropped = free.prefix(max(0, surplus))
            free = free.dropFirst(dropped.count)
            if !dropped.isEmpty {
                store.remove(dropped)
                onDrop(\.full, dropped.count)
            }
            do {
                try store.set(key, JSON.object(event).text)
                return true
            } catch {
                // The device's storage is full.
                if free.isEmpty { break }
                surplus = 1
            }
        }
        onDrop(\.full, 1)
        return false
    }

    func flight() -> Flight? {
        store.get("flight").flatMap { try? JSONDecoder().decode(Flight.self, from: Data($0.utf8)) }
    }

    /// What to send next: what is in doubt, else the oldest events. Nil if there is nothing.
    func next(countMax: Int, bytesMax: Int, nowMs: Int) throws -> EventBatch? {
        var open = keys()
        guard let flight = flight() else { return batch(of: open, countMax, bytesMax, nil) }
        let inFlight = Set(flight.keys)
        open = open.filter { inFlight.contains($0) }
        // A clock that went back hides how long ago they were sent.
        let isExpired = nowMs - flight.since >= Limits.inDoubtMaxMs || nowMs < flight.last - Limits.clockBackMaxMs
        if isExpired, !open.isEmpty {
            try remove(open, nil)
            onDrop(\.expired, open.count)
            open = []
        }
        if !open.isEmpty { return batch(of: open, countMax, bytesMax, flight) }
        try land(nil)
        return batch(of: keys(), countMax, bytesMax, nil)
    }

    private func batch(of open: [String], _ countMax: Int, _ bytesMax: Int, _ flight: Flight?) -> EventBatch? {
        var keys: [String] = []
        var events: [[String: JSON]] = []
        var broken: [String] = []
        var bytes = Limits.contextBytesMax
        for key in open where keys.count < countMax {
            let text = store.get(key) ?? ""
            bytes += text.utf8.count + 1
            if bytes > bytesMax, !keys.isEmpty { break }
            if let event = JSON(text: text)?.object, event["event_id"]?.string != nil, event["timestamp"]?.int != nil {
                keys.append(key)
                events.append(event)
            } else {
                broken.append(key)
            }
        }
        if !broken.isEmpty { store.remove(broken) }
        return keys.isEmpty ? nil : EventBatch(keys: keys, events: events, flight: flight)
    }

    /// Erases everything that is kept, not only events. Returns the number of events.
    func clear() -> Int {
        let keys = store.keys()
        store.remove(keys)
        return keys.filter { $0.hasPrefix("e") }.count
    }

    /// Stores an event as it is sent: a retry has to say the same.
    func change(_ key: String, _ event: [String: JSON]) throws { try store.set(key, JSON.object(event).text) }

    /// Notes that the batch is being sent: from now on it is in doubt.
    func launch(_ batch: EventBatch, nowMs: Int) throws {
        try land(Flight(keys: batch.flight?.keys ?? batch.keys, since: batch.flight?.since ?? nowMs, last: nowMs))
    }

    /// Goes back to what was in doubt before.
    func land(_ flight: Flight?) throws {
        if let flight { try store.set("flight", textOf(flight)) } else { store.remove(["flight"]) }
    }

    /// Removes events that have a final answer.
    func remove(_ keys: [String], _ flight: Flight?) throws {
        let done = Set(keys)
        let rest = (flight?.keys ?? []).filter { !done.contains($0) }
        store.remove(rest.isEmpty ? keys + ["flight"] : keys)
        if var flight, !rest.isEmpty {
            flight.keys = rest
            try land(flight)
        }
    }
}
