package signpost

/** What is kept on the device besides the queue. */
internal class State(var consent: Consent? = null, var opened: Boolean = false, var dropped: Dropped = Dropped()) {
    var installed = false
    var deviceId: String? = null
    var installId: String? = null

    /** Of the first match. */
    var matchId: String? = null
    var userId: String? = null
    var firstLink: Link? = null
    var lastLink: Link? = null

    /** A deferred link that no listener took yet, and since when. */
    var untaken: Link? = null
    var untakenAt = 0L

    /** Without full consent only the choice is kept, and that the first opening is over. */
    fun save(store: Store) {
        val kept = LinkedHashMap<String, Any?>()
        kept["consent"] = consent?.word
        if (opened) kept["opened"] = true
        if (consent == Consent.ALL) {
            if (installed) kept["installed"] = true
            kept["device_id"] = deviceId
            kept["install_id"] = installId
            kept["match_id"] = matchId
            kept["user_id"] = userId
            kept["first_link"] = firstLink?.let(::fieldsOf)
            kept["last_link"] = lastLink?.let(::fieldsOf)
            kept["untaken"] = untaken?.let { mapOf("link" to fieldsOf(it), "at" to untakenAt) }
            kept["dropped"] = dropped.takeIf { it != Dropped() }?.let {
                mapOf("full" to it.full, "expired" to it.expired, "rejected" to it.rejected, "consent" to it.consent)
            }
        }
        store.set("state", Json.text(kept.filterValues { it != null }))
    }

    companion object {
        /** Unreadable state starts over. */
        fun load(store: Store): State {
            val kept = Json.parsedObject(store.get("state")).orEmpty()
            val dropped = Json.objectOf(kept["dropped"]).orEmpty()
            val count = { reason: String -> (dropped[reason] as? Long ?: 0).toInt() }
            val state = State(
                Consent.of(kept["consent"]),
                kept["opened"] == true,
                Dropped(count("full"), count("expired"), count("rejected"), count("consent")),
            )
            state.installed = kept["installed"] == true
            state.deviceId = kept["device_id"] as? String
            state.installId = kept["install_id"] as? String
            state.matchId = kept["match_id"] as? String
            state.userId = kept["user_id"] as? String
            state.firstLink = linkFrom(kept["first_link"])
            state.lastLink = linkFrom(kept["last_link"])
            val untaken = Json.objectOf(kept["untaken"]).orEmpty()
            state.untaken = linkFrom(untaken["link"])
            state.untakenAt = untaken["at"] as? Long ?: 0
            return state
        }
    }
}

internal fun fieldsOf(link: Link): Map<String, Any?> =
    mapOf(
        "url" to link.url,
        "path" to link.path,
        "data" to link.data,
        "campaign" to link.campaign,
        "matchType" to link.matchType,
        "guaranteed" to link.guaranteed,
        "confidence" to link.confidence,
        "isDeferred" to link.isDeferred,
        "isFirst" to link.isFirst,
    )

private fun linkFrom(value: Any?): Link? {
    val fields = Json.objectOf(value) ?: return null
    return Link(
        url = fields["url"] as? String ?: return null,
        path = fields["path"] as? String ?: return null,
        data = Json.objectOf(fields["data"]).orEmpty(),
        campaign = fields["campaign"] as? String,
        matchType = fields["matchType"].toString(),
        guaranteed = fields["guaranteed"] == true,
        confidence = (fields["confidence"] as? Number)?.toDouble() ?: 0.0,
        isDeferred = fields["isDeferred"] == true,
        isFirst = fields["isFirst"] == true,
    )
}
