package signpost

import kotlin.math.abs
import kotlin.math.roundToInt

/** What a developer may have misconfigured, in sentences. */
internal class Check(
    private val options: Options,
    private val platform: Platform,
    private val connection: Connection,
    private val clock: ServerClock,
) {
    private val found = ArrayList<Finding>()

    fun run(done: (List<Finding>) -> Unit) {
        // A batch without events is refused with 400 once the key was accepted.
        connection.ask("/sdk/events", mapOf("events" to emptyList<Any>()), "accepted") { outcome ->
            hostAndKey(outcome)
            val files = options.linkHosts.orEmpty().take(Limits.CHECKED_HOSTS_MAX).map { it to "https://$it/.well-known/assetlinks.json" }
            associations(files) { done(found) }
        }
    }

    private fun hostAndKey(outcome: Outcome) {
        val host = options.host
        val status = outcome.reply?.status
        // HttpURLConnection keeps the body of a 401 to itself.
        val isSignpost = outcome.body["error"] is Map<*, *> || status == 401
        when {
            status == null -> add("host", false, "$host does not answer. Check the address, its certificate and this device's network.")
            !isSignpost -> add("host", false, "$host answers, but is no Signpost server (status $status).")
            else -> add("host", true, "$host is a Signpost server.")
        }
        if (!isSignpost) return
        val shown = "The key that ends with ${options.apiKey.takeLast(4)}"
        if (status == 400 || status == 429) add("key", true, "$shown is accepted.")
        else add("key", false, "$shown is refused (status $status). Compare it with the app's key in the dashboard.")
        val offset = clock.offsetMs ?: 0
        val minutes = (abs(offset) / 60_000.0).roundToInt()
        val direction = if (offset > 0) "behind" else "ahead of"
        if (minutes == 0) add("clock", true, "The clock of this device agrees with the server.")
        else add("clock", false, "The clock of this device is $minutes minutes $direction the server's. Events are sent with the server's time.")
    }

    private fun associations(files: List<Pair<String, String>>, done: () -> Unit) {
        val (host, url) = files.firstOrNull() ?: return done()
        platform.status(url) { status ->
            when (status) {
                200 -> add("association", true, "$url is served: Android opens links of $host in the app that it names.")
                0 -> add("association", false, "$host does not answer. Check the address and its certificate.")
                else -> add(
                    "association",
                    false,
                    "$url answers $status: Android opens links of $host in the browser. Set its package name and certificate fingerprint in the app's settings.",
                )
            }
            associations(files.drop(1), done)
        }
    }

    private fun add(part: String, ok: Boolean, text: String) {
        found.add(Finding(part, ok, text))
    }
}
