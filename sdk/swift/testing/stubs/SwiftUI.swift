// The part of SwiftUI that the SDK uses.
import Foundation

@MainActor public protocol View {}

extension View {
    nonisolated public func onOpenURL(perform action: @escaping (URL) -> Void) -> some View { Opened() }
}

struct Opened: View {}
