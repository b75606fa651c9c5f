import Foundation
@testable import Signpost

struct Mismatch: Error, CustomStringConvertible {
    let description: String
}

/// Runs one case of sdk/vectors against the client.
final class VectorRun {
    private let vector: JSON
    private let device: SimulatedDevice
    private var client: Client!
    private var platform: SimulatedPlatform!
    private var links: [JSON] = []
    /// What calls returned, by the name that the step gave; a call that failed has its error.
    private var results: [String: JSON] = [:]
    private var held: ((Answer) -> Void)?

    init(_ vector: JSON) {
        self.vector = vector
        device = SimulatedDevice(
            startMs: 1_772_366_400_000,
            fields: vector["device"].object ?? ["platform": "ios"],
            referrer: vector["referrer"].string,
            random: vector["random"].array?.compactMap(\.double) ?? [0.5]
        )
        fill()
    }

    func run() throws {
        for (at, step) in (vector["steps"].array ?? []).enumerated() {
            do { try self.step(step) } catch { throw Mismatch(description: "step \(at) \(step.text.prefix(200))\n\(error)") }
        }
    }

    private func fill() {
        let stored = vector["stored"]
        if stored["broken"].bool == true { for key in ["state", "flight", "e000000000001-x"] { device.texts[key] = "{" } }
        if stored["state"].object != nil { device.texts["state"] = stored["state"].text }
        var keys: [String] = []
        for event in stored["queue"].array ?? [] {
            let digits = String(keys.count + 1)
            keys.append("e" + String(repeating: "0", count: 12 - digits.count) + digits + "-" + (event["event_id"].string ?? ""))
            device.texts[keys[keys.count - 1]] = event.text
        }
        guard var flight = stored["flight"].object else { return }
        let ids = flight["event_ids"]?.array ?? []
        flight["event_ids"] = nil
        flight["keys"] = .array(keys.filter { ids.contains(.string(String($0.dropFirst(14)))) }.map(JSON.string))
        device.texts["flight"] = JSON.object(flight).text
    }

    private func step(_ step: JSON) throws {
        let fields = step.object ?? [:]
        if let more = fields["start"]?.object {
            let options = (vector["options"].object ?? [:]).merging(more) { _, given in given }
            platform = SimulatedPlatform(device)
            client = Client(optionsFrom(.object(options)), platform)
            client.start()
        }
        if fields["listen"] != nil { client.listen(1) { [self] in links.append(json($0)) } }
        if let name = fields["call"]?.string { try call(name, step) }
        if let ms = fields["advance"]?.int { device.advance(ms) }
        if let ms = fields["jump"]?.int { device.nowMs += ms }
        if fields["crash"] != nil { device.die() }
        if let request = fields["request"] { try self.request(request, fields["answer"] ?? "lost") }
        else if let answer = fields["answer"], answer != "hold" { held?(answerFrom(answer)) }
        if fields["idle"] != nil { try same("requests", [], .array(device.requests.map { .string($0.url) })) }
        if let expected = fields["links"] {
            try same("links", expected, .array(links))
            links = []
        }
        if let name = fields["result"]?.string, fields["call"] == nil { try same("result", step["is"], results[name] ?? .null) }
        if let name = fields["fails"]?.string, results[name]?.string?.contains(step["with"].string ?? "?") != true {
            throw Mismatch(description: "no such failure: \(results[name] ?? .null)")
        }
        if let stored = fields["stored"] { try checkStored(stored) }
        if let kept = fields["kept"] {
            try same("keys", ["state"], .array(device.texts.keys.map(JSON.string)))
            try same("state", kept, JSON(text: device.texts["state"]) ?? .null)
        }
    }

    private func call(_ name: String, _ step: JSON) throws {
        let key = step["as"].string ?? ""
        for n in 1...(step["times"].int ?? 1) {
            results[key] = "still running"
            let args = (step["args"].array ?? []).map { filled($0, n) }
            do { try invoke(name, args) { [self] in results[key] = $0 } } catch { results[key] = .string("\(error)") }
        }
        if let expected = step.object?["result"] { try same("result", expected, results[key] ?? .null) }
    }

    private func invoke(_ name: String, _ args: [JSON], keep: @escaping (JSON) -> Void) throws {
        let text = args.first?.string ?? ""
        let fields = args.last ?? .null
        let keepLink = { (link: Link?) in keep(link.map(json) ?? .null) }
        switch name {
        case "open": client.open(text, done: keepLink)
        case "pasted": client.pasted(text, done: keepLink)
        case "firstLink": keepLink(client.firstLink)
        case "lastLink": keepLink(client.lastLink)
        case "track":
            let revenue = fields["revenue"].object.map { Revenue($0["amount"]?.string ?? "", $0["currency"]?.string ?? "") }
            client.track(text, properties: fields["properties"].object, revenue: revenue, atMs: device.nowMs)
            keep(.null)
        case "identify":
            try client.identify(text)
            keep(.null)
        case "reset":
            try client.identify(nil)
            keep(.null)
        case "setConsent":
            try client.setConsent(Consent(rawValue: text)!)
            keep(.null)
        case "createLink":
            client.createLink(path: fields["path"].string ?? "", campaign: fields["campaign"].string, data: fields["data"].object) { made in
                switch made {
                case .success(let link): keep(["url": .string(link.url), "isLong": .bool(link.isLong)])
                case .failure(let error): keep(.string(error.description))
                }
            }
        case "flush":
            client.flush { keep(["queued": .int($0.queued), "dropped": JSON(text: textOf($0.dropped)) ?? .null]) }
        default: throw Mismatch(description: "no method \(name)")
        }
    }

    private func request(_ expected: JSON, _ answer: JSON) throws {
        try same("number of requests", 1, .int(device.requests.count))
        let request = device.requests.removeFirst()
        try same("url", .string("https://api.example.com/v1" + (expected["path"].string ?? "")), .string(request.url))
        try same("headers", ["content-type": "application/json", "x-api-key": "lk_test"], .object(request.headers.mapValues(JSON.string)))
        if let body = expected.object?["body"] { try same("body", filled(body, 0), request.body) }
        if let ids = expected.object?["event_ids"] {
            try same("events", idsOf(ids), .array((request.body["events"].array ?? []).map { $0["event_id"] }))
        }
        if answer == "hold" { held = request.answer } else { request.answer(answerFrom(answer)) }
    }

    private func checkStored(_ expected: JSON) throws {
        let state = JSON(text: device.texts["state"]) ?? .null
        for (name, value) in expected["state"].object ?? [:] { try same(name, value, state[name]) }
        let queue = device.texts.keys.filter { $0.hasPrefix("e") }.sorted()
        if let ids = expected.object?["queue"] { try same("queue", idsOf(ids), .array(queue.map { .string(String($0.dropFirst(14))) })) }
        let flight = (JSON(text: device.texts["flight"]) ?? .null)["keys"].array ?? []
        if let ids = expected.object?["flight"] {
            try same("flight", idsOf(ids), .array(flight.map { .string(String(($0.string ?? "").dropFirst(14))) }))
        }
    }
}

private func optionsFrom(_ fields: JSON) -> Options {
    Options(
        host: "https://api.example.com",
        apiKey: "lk_test",
        consent: fields["consent"].string.flatMap(Consent.init),
        linkHosts: fields["linkHosts"].array?.compactMap(\.string),
        fallbackLink: fields["fallbackLink"].string
    )
}

private func answerFrom(_ value: JSON) -> Answer {
    if value == "lost" { return .lost }
    if value == "unsent" { return .unsent }
    let headers = (value["headers"].object ?? [:]).compactMapValues(\.string)
    return .reply(Reply(status: value["status"].int ?? 0, headers: headers, body: value["body"] == .null ? nil : value["body"]))
}

private func json(_ link: Link) -> JSON {
    [
        "url": .string(link.url), "path": .string(link.path), "data": .object(link.data), "campaign": link.campaign.map(JSON.string) ?? .null,
        "matchType": .string(link.matchType), "guaranteed": .bool(link.guaranteed), "confidence": .double(link.confidence),
        "isDeferred": .bool(link.isDeferred), "isFirst": .bool(link.isFirst),
    ]
}

/// Compares as JSON: the order of members and the type of numbers don't matter.
private func same(_ what: String, _ expected: JSON, _ found: JSON) throws {
    if plain(expected) != plain(found) { throw Mismatch(description: "\(what): expected \(expected.text), found \(found.text)") }
}

private func plain(_ value: JSON) -> JSON {
    switch value {
    case .int(let value): .double(Double(value))
    case .array(let values): .array(values.map(plain))
    case .object(let members): .object(members.mapValues(plain))
    default: value
    }
}

/// `evt-1..evt-3` stands for three ids.
private func idsOf(_ texts: JSON) -> JSON {
    .array((texts.array ?? []).flatMap { text -> [JSON] in
        let ends = (text.string ?? "").components(separatedBy: "..")
        guard ends.count == 2, let dash = ends[0].lastIndex(of: "-") else { return [text] }
        let prefix = ends[0][...dash]
        return (Int(ends[0].dropFirst(prefix.count))!...Int(ends[1].dropFirst(prefix.count))!).map { .string("\(prefix)\($0)") }
    })
}

/// `{n}` is the number of the call, and `{"$repeat": ["x", 3]}` is `xxx`.
private func filled(_ value: JSON, _ n: Int) -> JSON {
    switch value {
    case .string(let text): return .string(text.replacingOccurrences(of: "{n}", with: String(n)))
    case .array(let values): return .array(values.map { filled($0, n) })
    case .object(let members):
        guard let part = members["$repeat"]?.array else { return .object(members.mapValues { filled($0, n) }) }
        return .string(String(repeating: part[0].string ?? "", count: part[1].int ?? 0))
    default: return value
    }
}
