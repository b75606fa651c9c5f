// The part of UIKit, and of Foundation on Apple's systems, that the SDK uses.
@_exported import Foundation

public typealias CGFloat = Double
public struct CGRect: Sendable {
    public static let zero = CGRect()
    public var width: CGFloat { 0 }
    public var height: CGFloat { 0 }
}

public let NSUserActivityTypeBrowsingWeb = "NSUserActivityTypeBrowsingWeb"

open class NSUserActivity: NSObject {
    public let activityType = ""
    public var webpageURL: URL? { nil }
}

open class NSItemProvider: NSObject, @unchecked Sendable {
    public func canLoadObject(ofClass: String.Type) -> Bool { false }
    public func loadObject(ofClass: String.Type, completionHandler: @escaping @Sendable (String?, (any Error)?) -> Void) -> Progress { Progress(totalUnitCount: 1) }
}

@MainActor open class UIResponder: NSObject {
    open var pasteConfiguration: UIPasteConfiguration?
    open func paste(itemProviders: [NSItemProvider]) {}
}

@MainActor public protocol UIPasteConfigurationSupporting: AnyObject {}
extension UIResponder: UIPasteConfigurationSupporting {}

open class UIPasteConfiguration: NSObject {
    public init(acceptableTypeIdentifiers: [String]) {}
}

@MainActor open class UIView: UIResponder {
    public struct AutoresizingMask: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        public static let flexibleWidth = AutoresizingMask(rawValue: 2)
        public static let flexibleHeight = AutoresizingMask(rawValue: 16)
    }

    open var frame = CGRect.zero
    open var bounds = CGRect.zero
    open var autoresizingMask: AutoresizingMask = []
    public init(frame: CGRect) {}
    public required init?(coder: NSCoder) {}
    open func addSubview(_ view: UIView) {}
}

@MainActor open class UIPasteControl: UIView {
    open class Configuration: NSObject {}
    public weak var target: (any UIPasteConfigurationSupporting)?
    public init(configuration: Configuration) { super.init(frame: .zero) }
    public required init?(coder: NSCoder) { nil }
}

public struct UIBackgroundTaskIdentifier: Sendable {}

@MainActor open class UIApplication: UIResponder {
    public static let shared = UIApplication()
    public nonisolated static let didEnterBackgroundNotification = Notification.Name("UIApplicationDidEnterBackgroundNotification")
    open func beginBackgroundTask(expirationHandler: (@MainActor @Sendable () -> Void)? = nil) -> UIBackgroundTaskIdentifier { UIBackgroundTaskIdentifier() }
    open func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) {}
}

@MainActor open class UIScreen: NSObject {
    public static let main = UIScreen()
    public let nativeBounds = CGRect.zero
    public let nativeScale: CGFloat = 1
}

@MainActor open class UIDevice: NSObject {
    public static let current = UIDevice()
    public let systemVersion = ""
}

@MainActor open class UIOpenURLContext: NSObject {
    public let url = URL(fileURLWithPath: "")
}

@MainActor open class UIScene: UIResponder {
    @MainActor open class ConnectionOptions: NSObject {
        public let urlContexts: Set<UIOpenURLContext> = []
        public let userActivities: Set<NSUserActivity> = []
    }
}
