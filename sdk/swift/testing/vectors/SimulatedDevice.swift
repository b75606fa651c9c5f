@testable import Signpost

/// A platform in memory: its clock and timers are driven, its requests wait for an answer.
final class SimulatedDevice {
    struct Request {
        let url: String
        let headers: [String: String]
        let body: JSON
        let answer: (Answer) -> Void
    }

    private struct Timer {
        let id: Int
        let at: Int
        let fire: () -> Void
    }

    var texts: [String: String] = [:]
    var requests: [Request] = []
    var nowMs: Int
    let fields: [String: JSON]
    let referrer: String?
    private let random: [Double]
    private var ids: [String: Int] = [:]
    private var drawn = 0
    /// Does not jump.
    private var ticks = 0
    private var timers: [Timer] = []
    private var timersMade = 0
    /// A process that has died does nothing more.
    fileprivate(set) var life = 0

    init(startMs: Int, fields: [String: JSON], referrer: String?, random: [Double]) {
        nowMs = startMs
        self.fields = fields
        self.referrer = referrer
        self.random = random
    }

    func die() {
        life += 1
        timers = []
        requests = []
    }

    func advance(_ ms: Int) {
        let end = ticks + ms
        while true {
            let next = timers.filter { $0.at <= end }.min { ($0.at, $0.id) < ($1.at, $1.id) }
            let to = next?.at ?? end
            nowMs += to - ticks
            ticks = to
            guard let next else { return }
            timers.removeAll { $0.id == next.id }
            next.fire()
        }
    }

    fileprivate func draw() -> Double {
        drawn += 1
        return random[min(drawn, random.count) - 1]
    }

    fileprivate func newId(_ kind: String) -> String {
        ids[kind, default: 0] += 1
        return "\(kind)-\(ids[kind]!)"
    }

    fileprivate func timer(_ delayMs: Int, _ fire: @escaping () -> Void) {
        timersMade += 1
        timers.append(Timer(id: timersMade, at: ticks + delayMs, fire: fire))
    }
}

/// One life of the process.
final class SimulatedPlatform: Platform, Store {
    private let simulated: SimulatedDevice
    private let life: Int

    init(_ device: SimulatedDevice) {
        simulated = device
        life = device.life
    }

    var store: Store { self }

    func get(_ key: String) -> String? { simulated.texts[key] }

    func set(_ key: String, _ text: String) throws {
        precondition(life == simulated.life, "this process has died")
        simulated.texts[key] = text
    }

    func remove(_ keys: some Sequence<String>) {
        precondition(life == simulated.life, "this process has died")
        for key in keys { simulated.texts[key] = nil }
    }

    func keys() -> [String] { Array(simulated.texts.keys) }

    func send(_ url: String, headers: [String: String], body: String?, timeoutMs: Int, done: @escaping (Answer) -> Void) {
        simulated.requests.append(SimulatedDevice.Request(url: url, headers: headers, body: JSON(text: body) ?? .null) { [self] answer in
            if life == simulated.life { done(answer) }
        })
    }

    func now() -> Int { simulated.nowMs }

    func random() -> Double { simulated.draw() }

    func newId(_ kind: String) -> String { simulated.newId(kind) }

    func timer(_ delayMs: Int, fire: @escaping () -> Void) { simulated.timer(delayMs, fire) }

    func device() -> [String: JSON] { simulated.fields }

    func referrer() -> String? { simulated.referrer }
}
