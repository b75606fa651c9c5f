// Type-checked against stubs of Apple's frameworks; not run on a device.
#if canImport(AdAttributionKit)
import AdAttributionKit

/// Registers the installation with Apple's AdAttributionKit, which tells ad networks about it without naming the person.
/// Call it at the first start, and later to change the value.
/// - Parameter conversionValue: 0 to 63; its meaning is the app's.
@available(iOS 17.4, *)
public func registerAdAttribution(conversionValue: Int = 0) async throws {
    try await Postback.updateConversionValue(conversionValue, lockPostback: false)
}
#endif
