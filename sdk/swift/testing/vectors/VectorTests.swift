import Foundation
import XCTest
@testable import Signpost

final class VectorTests: XCTestCase {
    /// Pages and servers have the TypeScript SDK.
    func testEveryVectorOfADevicePasses() throws {
        let folder = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../../vectors").standardizedFileURL
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".json") }.sorted()
        var passed = 0
        for name in names {
            let file = JSON(text: try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8))
            for vector in file?["cases"].array ?? [] where (vector["kind"].string ?? "device") == "device" {
                do {
                    try VectorRun(vector).run()
                    passed += 1
                } catch {
                    XCTFail("\(name): \(vector["title"].string ?? "")\n\(error)")
                }
            }
        }
        print("vectors: \(passed) passed")
        XCTAssertGreaterThan(passed, 50)
    }
}
