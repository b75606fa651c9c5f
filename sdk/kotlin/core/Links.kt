package signpost

import java.net.URLDecoder
import java.util.Locale

/** What names a link or a click, by the field of POST /sdk/match. */
internal data class Evidence(val url: String? = null, val clickId: String? = null, val clipboardUrl: String? = null) {
    val fields: Map<String, Any?> =
        mapOf("url" to url, "click_id" to clickId, "clipboard_url" to clipboardUrl).filterValues { it != null }
}

private class UrlParts(val host: String, val path: String, val query: Map<String, String>)

// Without \w, which on Android is more than ASCII.
private val urlForm = Regex("[A-Za-z][A-Za-z0-9_+.-]*://([^/?#]*)([^?#]*)(?:\\?([^#]*))?(?:#.*)?", RegexOption.DOT_MATCHES_ALL)
private val shortPath = Regex("/[A-Za-z0-9_-]{3,64}/?")

/** Works for the schemes of apps too. */
private fun partsOf(url: String): UrlParts {
    val (host, path, query) = urlForm.matchEntire(url)?.destructured ?: return UrlParts("", "", emptyMap())
    val pairs = query.split('&').filter { it.isNotEmpty() }.map { decoded(it.substringBefore('=')) to decoded(it.substringAfter('=', "")) }
    // Of several values the first counts.
    return UrlParts(host.lowercase(Locale.ROOT).replace(Regex(":\\d+$"), ""), path, pairs.asReversed().toMap())
}

private fun decoded(text: String): String =
    try {
        URLDecoder.decode(text, "UTF-8")
    } catch (_: IllegalArgumentException) {
        text
    }

/** Null for a URL that can neither be a short link nor names a click. */
internal fun evidenceOf(url: String, hosts: List<String>?): Evidence? {
    val parts = partsOf(url)
    parts.query["click_id"]?.takeIf { it.isNotEmpty() }?.let { return Evidence(clickId = it) }
    val isWeb = url.startsWith("http:", ignoreCase = true) || url.startsWith("https:", ignoreCase = true)
    // Imported links may have any path, Firebase long links have a query instead; without hosts, the form keeps the app's other URLs back.
    val isLink = if (hosts == null) shortPath.matches(parts.path) else parts.host in hosts && (parts.path.length > 1 || "link" in parts.query)
    return if (isWeb && isLink) Evidence(url = url) else null
}

/** Pasted text is evidence if it is a URL that names a click. */
internal fun pastedEvidence(text: String): Evidence? {
    val url = text.trim()
    return if (partsOf(url).query["click_id"].isNullOrEmpty()) null else Evidence(clipboardUrl = url)
}

/** The link of an answer; null if it has none, or none that belongs to the evidence. */
internal fun linkOf(body: Map<String, Any?>, evidence: Evidence, isFirstOpen: Boolean, isFirst: Boolean): Link? {
    val link = Json.objectOf(body["link"]) ?: return null
    val isByUrl = body["match_type"] == "url"
    val named = evidence.clickId ?: evidence.clipboardUrl?.let { partsOf(it).query["click_id"] }
    // A device that was answered before gets that answer again; it is no answer to this URL.
    if (!isFirstOpen && (if (evidence.url != null) !isByUrl else named != body["click_id"])) return null
    val query = Json.objectOf(body["query_params"]).orEmpty()
    return Link(
        url = evidence.url?.takeIf { isByUrl } ?: link["url"].toString(),
        path = (query["sp_path"] ?: link["path"]).toString(),
        data = Json.parsedObject(query["sp_data"] as? String) ?: Json.objectOf(body["data"]).orEmpty(),
        campaign = (query["sp_campaign"] ?: link["campaign"]) as? String,
        matchType = body["match_type"].toString(),
        guaranteed = body["match_guaranteed"] == true,
        confidence = (body["confidence"] as? Number)?.toDouble() ?: 0.0,
        isDeferred = !isByUrl && evidence.clickId == null,
        isFirst = isFirst,
    )
}

/** A link that works without having been created: the fallback link with the fields in its query. */
internal fun longForm(fallback: String, path: String, campaign: String?, data: Map<String, Any?>?): CreatedLink {
    val fields = mapOf("sp_path" to path, "sp_campaign" to campaign?.ifEmpty { null }, "sp_data" to data?.let { Json.text(it) })
    val query = fields.filterValues { it != null }.map { (name, value) -> "$name=${encoded(value.orEmpty())}" }
    return CreatedLink(fallback + (if ('?' in fallback) '&' else '?') + query.joinToString("&"), isLong = true)
}

/** As encodeURIComponent does; URLEncoder makes a + of a space. */
private fun encoded(text: String): String =
    text.toByteArray(Charsets.UTF_8).joinToString("") { byte ->
        val char = (byte.toInt() and 0xff).toChar()
        if (char in 'a'..'z' || char in 'A'..'Z' || char in '0'..'9' || char in "-_.!~*'()") char.toString()
        else "%" + char.code.toString(16).uppercase(Locale.ROOT).padStart(2, '0')
    }
