import Foundation

/// One file for each key. A text is on the disk, not only with the system, when `set` returns.
final class FileStore: Store {
    private let folder: URL
    private var names: Set<String> = []

    init(_ folder: URL) {
        self.folder = folder
        try? FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [] {
            if name.hasSuffix(part) { try? FileManager.default.removeItem(at: file(name)) } else { names.insert(name) }
        }
    }

    func get(_ key: String) -> String? {
        names.contains(key) ? try? String(contentsOf: file(key), encoding: .utf8) : nil
    }

    func set(_ key: String, _ text: String) throws {
        let path = file(key + part).path
        do {
            guard FileManager.default.createFile(atPath: path, contents: nil), let handle = FileHandle(forWritingAtPath: path)
            else { throw CocoaError(.fileWriteUnknown) }
            defer { try? handle.close() }
            try handle.write(contentsOf: Data(text.utf8))
            try handle.synchronize()
            guard rename(path, file(key).path) == 0 else { throw CocoaError(.fileWriteUnknown) }
        } catch {
            try? FileManager.default.removeItem(atPath: path)
            throw error
        }
        names.insert(key)
    }

    func remove(_ keys: some Sequence<String>) {
        for key in keys where names.remove(key) != nil { try? FileManager.default.removeItem(at: file(key)) }
    }

    func keys() -> [String] { Array(names) }

    private func file(_ name: String) -> URL { folder.appendingPathComponent(name) }
}

private let part = ".part"
