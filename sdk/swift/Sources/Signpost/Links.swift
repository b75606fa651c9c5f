import Foundation

/// What names a link or a click.
struct Evidence {
    var url: String?
    var clickId: String?
    var clipboardUrl: String?

    /// With the field names of POST /sdk/match.
    var fields: [String: JSON] {
        ["url": url, "click_id": clickId, "clipboard_url": clipboardUrl].compactMapValues { $0.map(JSON.string) }
    }
}

private struct URLParts {
    var scheme = ""
    var host = ""
    var path = ""
    var clickId: String?
    var hasLink = false
}

/// Works for the schemes of apps too, and for what `URL` does not take.
private func partsOf(_ url: String) -> URLParts {
    guard let colon = url.range(of: "://"), url[..<colon.lowerBound].range(of: "^[A-Za-z][A-Za-z0-9_+.-]*$", options: .regularExpression) != nil
    else { return URLParts() }
    let rest = url[colon.upperBound...].prefix { $0 != "#" }
    let beforeQuery = rest.prefix { $0 != "?" }
    let authority = beforeQuery.prefix { $0 != "/" }
    let host = authority.lowercased().replacingOccurrences(of: ":[0-9]+$", with: "", options: .regularExpression)
    let pairs = rest.dropFirst(beforeQuery.count + 1).split(separator: "&").map { $0.split(separator: "=", maxSplits: 1) }
    let value = pairs.first { $0.first.map(decoded) == "click_id" }.map { $0.count > 1 ? decoded($0[1]) : "" }
    let clickId = value.flatMap { $0.isEmpty ? nil : $0 }
    let hasLink = pairs.contains { $0.first.map(decoded) == "link" }
    return URLParts(scheme: url[..<colon.lowerBound].lowercased(), host: host, path: String(beforeQuery.dropFirst(authority.count)), clickId: clickId, hasLink: hasLink)
}

private func decoded(_ text: Substring) -> String {
    let spaced = text.replacingOccurrences(of: "+", with: " ")
    return spaced.removingPercentEncoding ?? spaced
}

/// Nil for a URL that can neither be a short link nor names a click.
func evidenceOf(_ url: String, hosts: [String]?) -> Evidence? {
    let parts = partsOf(url)
    if let clickId = parts.clickId { return Evidence(clickId: clickId) }
    let isWeb = parts.scheme == "http" || parts.scheme == "https"
    // Imported links may have any path, Firebase long links have a query instead; without hosts, the form keeps the app's other URLs back.
    let isLink = hosts.map { $0.contains(parts.host) && (parts.path.count > 1 || parts.hasLink) }
        ?? (parts.path.range(of: "^/[A-Za-z0-9_-]{3,64}/?$", options: .regularExpression) != nil)
    return isWeb && isLink ? Evidence(url: url) : nil
}

/// Pasted text is evidence if it is a URL that names a click.
func pastedEvidence(_ text: String) -> Evidence? {
    let url = text.trimmingCharacters(in: .whitespacesAndNewlines)
    return partsOf(url).clickId == nil ? nil : Evidence(clipboardUrl: url)
}

/// The link of an answer; nil if it has none, or none that belongs to the evidence.
func linkOf(_ body: JSON, _ evidence: Evidence, isFirstOpen: Bool, isFirst: Bool) -> Link? {
    guard let link = body["link"].object else { return nil }
    let isByUrl = body["match_type"].string == "url"
    let named = evidence.clickId ?? evidence.clipboardUrl.flatMap { partsOf($0).clickId }
    // A device that was answered before gets that answer again; it is no answer to this URL.
    if !isFirstOpen, evidence.url != nil ? !isByUrl : named != body["click_id"].string { return nil }
    let query = body["query_params"]
    return Link(
        url: (isByUrl ? evidence.url : nil) ?? link["url"]?.string ?? "",
        path: query["sp_path"].string ?? link["path"]?.string ?? "",
        data: JSON(text: query["sp_data"].string)?.object ?? body["data"].object ?? [:],
        campaign: query["sp_campaign"].string ?? link["campaign"]?.string,
        matchType: body["match_type"].string ?? "",
        guaranteed: body["match_guaranteed"].bool == true,
        confidence: body["confidence"].double ?? 0,
        isDeferred: !isByUrl && evidence.clickId == nil,
        isFirst: isFirst
    )
}

/// A link that works without having been created: the fallback link with the fields in its query.
func longForm(_ fallback: String, path: String, campaign: String?, data: [String: JSON]?) -> CreatedLink {
    var url = fallback + (fallback.contains("?") ? "&" : "?") + "sp_path=" + encoded(path)
    if let campaign, !campaign.isEmpty { url += "&sp_campaign=" + encoded(campaign) }
    if let data { url += "&sp_data=" + encoded(JSON.object(data).text) }
    return CreatedLink(url: url, isLong: true)
}

private let unreserved = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()")

private func encoded(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? "" }
