// A device on the command line: `device <host> <key> <folder> <pasted text>`. It prints each link that opens the app, and
// takes one command a line. An app on iOS does the same with `createSignpost(Options(host: host, apiKey: key))`.
import Foundation
import Signpost

@main
enum Device {
    static func main() async throws {
        let args = CommandLine.arguments
        guard args.count == 5 else { return say("device <host> <key> <folder> <pasted text>") }
        let fields: [String: JSON] = ["platform": "ios", "os_version": "18.5", "device_model": "iPhone15,2", "language": "en-GB"]
        let signpost = createSignpost(Options(host: args[1], apiKey: args[2]), folder: URL(fileURLWithPath: args[3]), device: fields)
        let stream = signpost.links
        let links = Task {
            for await link in stream { say("link \(link.path) \(link.matchType) deferred=\(link.isDeferred)") }
        }
        if !args[4].isEmpty { await signpost.pasted(args[4]) }
        while let line = readLine() {
            let words = line.split(separator: " ").map(String.init)
            let argument = words.count > 1 ? words[1] : ""
            switch words.first {
            case "track":
                await signpost.track(argument, properties: ["from": "device"], revenue: words.count > 2 ? Revenue(words[2], "EUR") : nil)
                say("tracked \(argument)")
            case "identify":
                try await signpost.identify(argument)
                say("identified \(argument)")
            case "open":
                guard let url = URL(string: argument) else { continue }
                say("opened \(await signpost.open(url)?.path ?? "nothing")")
            case "create":
                do { say("created \(try await signpost.createLink(path: argument, campaign: "invites").url)") } catch { say("\(error)") }
            case "flush":
                let flushed = await signpost.flush()
                let dropped = flushed.dropped
                say("flushed queued=\(flushed.queued) dropped=\(dropped.full + dropped.expired + dropped.rejected + dropped.consent)")
            case "check":
                for finding in await signpost.check() { say("\(finding.ok ? "ok" : "problem"): \(finding.text)") }
                say("checked")
            case "consent":
                if let consent = Consent(rawValue: argument) { try await signpost.setConsent(consent) }
                say("consent \(argument)")
            default:
                say("track <name> [amount] · identify <user> · open <url> · create <path> · flush · check · consent all|links|none")
            }
        }
        links.cancel()
    }
}

private func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
