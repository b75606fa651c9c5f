// The part of AdAttributionKit that the SDK uses.
public struct Postback {
    public static func updateConversionValue(_ conversionValue: Int, lockPostback: Bool) async throws {}
}
