package signpost

import kotlin.math.max
import kotlin.math.min

internal enum class Kind {
    OK,

    /** The server refused this request for what it says: 400 or 413. */
    REFUSED,

    /** The server did not do what was asked, now or ever with this key. */
    DECLINED,

    /** It may have done it. */
    IN_DOUBT,
}

/** @property clockChanged the server's clock turned out to be another. */
internal class Outcome(val kind: Kind, val reply: Answer.Reply?, val clockChanged: Boolean) {
    val body: Map<String, Any?> = Json.objectOf(reply?.body) ?: emptyMap()

    /** The named click is not processed yet. */
    val isPending get() = body["reason"] == "click_pending"

    /** A wrong key or a wrong address. */
    val isHopeless get() = (reply?.status ?: 0).let { it in 300..499 && it != 408 && it != 429 }

    val retryAfterMs: Long
        get() {
            val seconds = reply?.headers?.get("retry-after")?.toDoubleOrNull()?.takeIf { it > 0 } ?: return 0
            return min(Limits.RETRY_AFTER_MAX_MS.toDouble(), seconds * 1_000).toLong()
        }
}

/**
 * Sends requests to the server and decides after each answer how long to wait: full jitter, Retry-After, or the longest
 * wait for what only a person can mend.
 */
internal class Connection(private val platform: Platform, private val clock: ServerClock, private val options: Options) {
    private val base = options.host.trimEnd('/').removeSuffix("/v1") + "/v1"
    private var failures = 0

    /** @param proof a field that the server's own 2xx answer has; a captive portal's has not. */
    fun ask(path: String, body: Map<String, Any?>, proof: String, timeoutMs: Long = Limits.REQUEST_TIMEOUT_MS, done: (Outcome) -> Unit) {
        val headers = mapOf("content-type" to "application/json", "x-api-key" to options.apiKey)
        platform.send(base + path, headers, Json.text(body), timeoutMs) { answer ->
            val reply = answer as? Answer.Reply
            val clockChanged = clock.learn(reply?.headers?.get("x-ratelimit-reset"))
            done(Outcome(kindOf(answer, proof), reply, clockChanged))
        }
    }

    /** How long to wait after the outcome; 0 for one that is final. */
    fun waitMs(outcome: Outcome): Long {
        if (outcome.kind == Kind.OK || outcome.kind == Kind.REFUSED) {
            failures = 0
            return 0
        }
        if (outcome.isHopeless) return Limits.BACKOFF_MAX_MS
        val limit = min(Limits.BACKOFF_MAX_MS, Limits.BACKOFF_MIN_MS shl min(failures++, 20))
        return outcome.retryAfterMs + max(1, Math.round(platform.random() * limit))
    }

    private fun kindOf(answer: Answer, proof: String): Kind =
        when (answer) {
            Answer.Unsent -> Kind.DECLINED
            Answer.Lost -> Kind.IN_DOUBT
            is Answer.Reply ->
                when (answer.status) {
                    in 200..299 -> if (Json.objectOf(answer.body)?.containsKey(proof) == true) Kind.OK else Kind.IN_DOUBT
                    400, 413 -> Kind.REFUSED
                    408, in 500..999 -> Kind.IN_DOUBT
                    else -> Kind.DECLINED
                }
        }
}
