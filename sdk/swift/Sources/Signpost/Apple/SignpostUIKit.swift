// Type-checked against stubs of Apple's frameworks; not run on a device.
#if canImport(UIKit)
import Foundation
import UIKit

/// One per app; call it in `application(_:didFinishLaunchingWithOptions:)` or in the initializer of the SwiftUI app.
@MainActor
public func createSignpost(_ options: Options) -> Signpost {
    let signpost = createSignpost(options, folder: signpostFolder(), device: iosFields())
    // iOS may end an app in the background.
    _ = NotificationCenter.default.addObserver(forName: UIApplication.didEnterBackgroundNotification, object: nil, queue: .main) { _ in
        Task { @MainActor in
            let task = UIApplication.shared.beginBackgroundTask()
            await signpost.flush()
            UIApplication.shared.endBackgroundTask(task)
        }
    }
    return signpost
}

/// What the system hands to the app's scene delegate. What the link means comes to `onLink`.
extension Signpost {
    /// `scene(_:willConnectTo:options:)`: the link that started the app.
    @MainActor
    public func handle(_ options: UIScene.ConnectionOptions) {
        for activity in options.userActivities { handle(activity) }
        handle(options.urlContexts)
    }

    /// `scene(_:continue:)`: a universal link.
    @MainActor
    public func handle(_ activity: NSUserActivity) {
        guard activity.activityType == NSUserActivityTypeBrowsingWeb, let url = activity.webpageURL else { return }
        Task { await open(url) }
    }

    /// `scene(_:openURLContexts:)`: a link of the app's own scheme.
    @MainActor
    public func handle(_ contexts: Set<UIOpenURLContext>) {
        for context in contexts {
            let url = context.url
            Task { await open(url) }
        }
    }
}

/// Apple's paste button: iOS asks nothing, because the person taps it. The SDK sees only what is pasted with it.
@available(iOS 16.0, *)
public final class LinkPasteView: UIView {
    private let signpost: Signpost
    private let control = UIPasteControl(configuration: UIPasteControl.Configuration())

    public init(_ signpost: Signpost) {
        self.signpost = signpost
        super.init(frame: .zero)
        pasteConfiguration = UIPasteConfiguration(acceptableTypeIdentifiers: ["public.utf8-plain-text", "public.url"])
        control.target = self
        control.frame = bounds
        control.autoresizingMask = [.flexibleWidth, .flexibleHeight]
        addSubview(control)
    }

    @available(*, unavailable)
    required init?(coder: NSCoder) { fatalError("LinkPasteView is made in code") }

    override public func paste(itemProviders: [NSItemProvider]) {
        for provider in itemProviders where provider.canLoadObject(ofClass: String.self) {
            _ = provider.loadObject(ofClass: String.self) { [signpost] text, _ in
                if let text { Task { await signpost.pasted(text) } }
            }
        }
    }
}

private func signpostFolder() -> URL {
    let support = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)[0]
    var folder = support.appendingPathComponent("signpost", isDirectory: true)
    try? FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    // A restored device id would make two devices one.
    var values = URLResourceValues()
    values.isExcludedFromBackup = true
    try? folder.setResourceValues(values)
    return folder
}

@MainActor
private func iosFields() -> [String: JSON] {
    var system = utsname()
    uname(&system)
    let model = withUnsafeBytes(of: system.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    let screen = UIScreen.main
    return [
        "platform": "ios",
        "os_version": .string(UIDevice.current.systemVersion),
        "device_model": .string(model),
        "language": .string(Locale.preferredLanguages.first ?? ""),
        "languages": .array(Locale.preferredLanguages.prefix(32).map(JSON.string)),
        "timezone": .string(TimeZone.current.identifier),
        "screen_width": .double(Double(screen.nativeBounds.width)),
        "screen_height": .double(Double(screen.nativeBounds.height)),
        "screen_scale": .double(Double(screen.nativeScale)),
        "app_version": .string(Bundle.main.infoDictionary?["CFBundleShortVersionString"] as? String ?? ""),
        "sdk_name": "swift",
        "sdk_version": .string(sdkVersion),
    ]
}
#endif
