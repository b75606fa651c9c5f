package signpost

/** What the core needs from where it runs. All callbacks come on the thread on which the core runs. */
internal interface Platform {
    val store: Store

    fun send(url: String, headers: Map<String, String>, body: String, timeoutMs: Long, done: (Answer) -> Unit)

    /** The status of a GET; 0 if there is no answer. */
    fun status(url: String, done: (Int) -> Unit)

    /** The wall clock, epoch milliseconds. */
    fun now(): Long

    /** From 0 inclusive to 1 exclusive. */
    fun random(): Double

    /** @param kind `dev`, `ins` or `evt`. */
    fun newId(kind: String): String

    /** Calls back once, by a clock that does not jump. */
    fun timer(delayMs: Long, fire: () -> Unit)

    /** What the device says about itself, with the field names of POST /sdk/match. */
    fun device(): Map<String, Any?>

    /** The Play Store's referrer. */
    fun referrer(done: (String?) -> Unit)

    /** Runs work on the core's thread. */
    fun post(work: () -> Unit)

    /** Runs the app's code where the app expects it. */
    fun deliver(work: () -> Unit)
}

/** Texts by key, kept on the device. */
interface Store {
    fun get(key: String): String?

    /** Returns once the text survives the end of the process. @throws java.io.IOException if there is no room. */
    fun set(key: String, text: String)

    fun remove(keys: Collection<String>)

    fun keys(): Collection<String>
}

internal sealed interface Answer {
    /** @property headers by their lower-case names. @property body null if it was no JSON. */
    data class Reply(val status: Int, val headers: Map<String, String>, val body: Any?) : Answer

    /** The server certainly did not get the request. */
    object Unsent : Answer

    /** It may have got it. */
    object Lost : Answer
}
