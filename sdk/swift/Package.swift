// swift-tools-version:6.0
import PackageDescription

let package = Package(
    name: "Signpost",
    platforms: [.iOS(.v15), .macOS(.v12)],
    products: [.library(name: "Signpost", targets: ["Signpost"])],
    targets: [
        .target(name: "Signpost", resources: [.copy("PrivacyInfo.xcprivacy")]),
        .executableTarget(name: "device", dependencies: ["Signpost"], path: "example"),
        .testTarget(name: "SignpostTests", dependencies: ["Signpost"], path: "testing/vectors"),
    ]
)
