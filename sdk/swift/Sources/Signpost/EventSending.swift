/// Sends the queue in batches, and removes what has a final answer.
final class EventSending {
    private let queue: EventQueue
    private let connection: Connection
    private let clock: ServerClock
    private let onRejected: (Int) -> Void
    /// Halved by each 413.
    private var countMax = Limits.batchEventsMax
    /// Halved by each request that was too slow, and larger again after answers.
    private var bytesMax = Limits.batchBytesMax
    /// Events that were tracked before the server's clock was known.
    private var untimed: Set<String> = []

    init(_ queue: EventQueue, _ connection: Connection, _ clock: ServerClock, onRejected: @escaping (Int) -> Void) {
        self.queue = queue
        self.connection = connection
        self.clock = clock
        self.onRejected = onRejected
    }

    func add(_ event: [String: JSON]) {
        if queue.add(event), clock.offsetMs == nil, let id = event["event_id"]?.string { untimed.insert(id) }
    }

    /// Returns false if there is nothing to send; else `done` gets the outcome, which `settle` takes.
    func send(_ context: [String: JSON], nowMs: Int, done: @escaping (EventBatch, Outcome) -> Void) throws -> Bool {
        guard let batch = try queue.next(countMax: countMax, bytesMax: bytesMax, nowMs: nowMs) else { return false }
        let events = batch.flight == nil ? try timed(batch) : batch.events
        try queue.launch(batch, nowMs: nowMs)
        let body: [String: JSON] = ["events": .array(events.map { .object($0) }), "context": .object(context)]
        connection.ask("/sdk/events", body, proof: "accepted") { done(batch, $0) }
        return true
    }

    /// With the server's time, as far as it is known by now.
    private func timed(_ batch: EventBatch) throws -> [[String: JSON]] {
        var timed = batch.events
        for (at, event) in batch.events.enumerated() {
            let tracked = event["timestamp"]?.int ?? 0
            let id = event["event_id"]?.string ?? ""
            let timestamp = min(tracked + (untimed.contains(id) ? clock.offsetMs ?? 0 : 0), clock.now())
            if clock.offsetMs != nil { untimed.remove(id) }
            if timestamp == tracked { continue }
            timed[at]["timestamp"] = .int(timestamp)
            try queue.change(batch.keys[at], timed[at])
        }
        return timed
    }

    func settle(_ batch: EventBatch, _ outcome: Outcome) throws {
        if outcome.kind == .inDoubt {
            // Lost, as after a time-out, or too slow for the server.
            if outcome.reply == nil || outcome.status == 408 { bytesMax = max(Limits.batchBytesMin, bytesMax / 2) }
            return
        }
        if outcome.kind == .ok { bytesMax = min(Limits.batchBytesMax, bytesMax + Limits.batchBytesStep) }
        if outcome.kind == .declined { return try queue.land(batch.flight) }
        if outcome.status == 413, batch.keys.count > 1 {
            countMax = (batch.keys.count + 1) / 2
            return try queue.land(batch.flight)
        }
        // Refused for its time by a clock that was just corrected: once more.
        let again = outcome.clockChanged ? refusedForTime(outcome) : []
        try queue.remove(batch.keys.indices.filter { !again.contains($0) }.map { batch.keys[$0] }, batch.flight)
        let rejected = outcome.kind == .ok ? outcome.body["rejected"].int ?? 0 : batch.keys.count
        if rejected > again.count { onRejected(rejected - again.count) }
    }
}

/// Indexes of the events whose timestamp was refused; in a 400 they are in the names of the fields.
private func refusedForTime(_ outcome: Outcome) -> Set<Int> {
    let details = outcome.body["error"]["details"]
    let answer = details.object == nil ? outcome.body : details
    return Set((answer["errors"].array ?? [answer]).compactMap { error in
        guard let field = error["field"].string, field == "timestamp" || field.hasSuffix("].timestamp") else { return nil }
        return error["index"].int ?? Int(field.dropFirst("events[".count).prefix { $0 != "]" })
    })
}
