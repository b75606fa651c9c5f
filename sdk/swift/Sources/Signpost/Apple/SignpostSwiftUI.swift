// Type-checked against stubs of Apple's frameworks; not run on a device.
#if canImport(SwiftUI) && canImport(UIKit)
import Foundation
import SwiftUI

extension View {
    /// Universal links and links of the app's own scheme. What the link means comes to `onLink`.
    public func opensLinks(with signpost: Signpost) -> some View {
        onOpenURL { url in Task { await signpost.open(url) } }
    }
}
#endif
