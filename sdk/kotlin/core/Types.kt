package signpost

/** `LINKS`: deep links work, but nothing that identifies the device is kept or sent. */
enum class Consent(internal val word: String) {
    ALL("all"),
    LINKS("links"),
    NONE("none");

    internal companion object {
        fun of(word: Any?): Consent? = values().firstOrNull { it.word == word }
    }
}

/**
 * @property url the URL that opened the app, or the short link that led to the store.
 * @property data maps, lists, texts, `Long`, `Double`, `Boolean` and null.
 * @property matchType `url`, `click_id`, `install_referrer`, `clipboard` or `probabilistic`.
 * @property guaranteed false for a match by score: such a link may be another person's.
 * @property isDeferred the link was opened before the app was installed.
 * @property isFirst the first link of this installation.
 */
data class Link(
    val url: String,
    val path: String,
    val data: Map<String, Any?>,
    val campaign: String?,
    val matchType: String,
    val guaranteed: Boolean,
    val confidence: Double,
    val isDeferred: Boolean,
    val isFirst: Boolean,
)

/**
 * Events that were tracked but not sent, since the installation.
 * @property full the queue was full.
 * @property expired whether the server has them is unknown, and it may have forgotten their ids.
 * @property rejected the server or the SDK refused them.
 * @property consent there was no consent, or it was withdrawn before they were sent.
 */
data class Dropped(val full: Int = 0, val expired: Int = 0, val rejected: Int = 0, val consent: Int = 0)

/** @property queued events that are still in the queue. */
data class Flushed(val queued: Int, val dropped: Dropped)

/** @property amount a decimal, `19.99`. */
data class Revenue(val amount: String, val currency: String)

/** @property isLong the server could not be reached: the URL is the fallback link with the fields in its query. */
data class CreatedLink(val url: String, val isLong: Boolean)

/** @property part `host`, `key`, `clock` or `association`. @property text a sentence for the developer. */
data class Finding(val part: String, val ok: Boolean, val text: String)

/** The link was not created, and there is no fallback link. */
class LinkNotCreated(message: String) : Exception(message)

/**
 * @property host origin of the API: `https://api.example.com`.
 * @property apiKey the app's key, `lk_…`.
 * @property consent default: the last choice, else `ALL`.
 * @property linkHosts hosts of the app's short links; if set, `open` ignores other URLs.
 * @property fallbackLink a short link that `createLink` extends if the server can't be reached.
 */
data class Options(
    val host: String,
    val apiKey: String,
    val consent: Consent? = null,
    val linkHosts: List<String>? = null,
    val fallbackLink: String? = null,
)
