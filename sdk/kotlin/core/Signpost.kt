package signpost

import java.io.File
import kotlin.coroutines.Continuation
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.resumeWithException
import kotlin.coroutines.startCoroutine
import kotlin.coroutines.suspendCoroutine

const val SDK_VERSION = "0.1.0"

/**
 * One per app, in one of its processes.
 * @param folder of its own, on the device, excluded from backups: a restored one would make two devices of one.
 */
fun createSignpost(options: Options, folder: File, device: Device): Signpost = Signpost(options, JvmPlatform(folder, device))

/** All methods can be called on any thread. */
class Signpost internal constructor(options: Options, private val platform: Platform) {
    private val client = Client(options, platform)

    init {
        platform.post(client::start)
    }

    /** Every link, cold, warm and deferred; those that came before the first listener are replayed. @return a function that ends it. */
    fun onLink(listener: (Link) -> Unit): () -> Unit {
        platform.post { client.listen(listener) }
        return { platform.post { client.stop(listener) } }
    }

    /** Resolves the URL that opened the app; null if it is not a link of the app. */
    suspend fun open(url: String): Link? = answer { done -> client.open(url) { done(Result.success(it)) } }

    /** Takes text that the person has pasted; the SDK never reads the clipboard. */
    suspend fun pasted(text: String): Link? = answer { done -> client.pasted(text) { done(Result.success(it)) } }

    suspend fun firstLink(): Link? = result(client::firstLink)

    suspend fun lastLink(): Link? = result(client::lastLink)

    /**
     * Returns once the event is stored on the device.
     * @param properties of maps, lists, texts, numbers, booleans and null.
     */
    suspend fun track(name: String, properties: Map<String, Any?>? = null, revenue: Revenue? = null) {
        val atMs = platform.now()
        // The app may change its map afterwards.
        val copied = properties?.let { Json.parsedObject(Json.text(it)) }
        result { client.track(name, copied, revenue, atMs) }
    }

    suspend fun identify(userId: String) = result { client.identify(userId) }

    /** Forgets the user, for a logout. */
    suspend fun reset() = result { client.identify(null) }

    /** @throws LinkNotCreated if the server refuses the link, or can't be reached and there is no fallback link. */
    suspend fun createLink(path: String, campaign: String? = null, data: Map<String, Any?>? = null): CreatedLink =
        answer { client.createLink(path, campaign, data, it) }

    suspend fun setConsent(consent: Consent) = result { client.setConsent(consent) }

    /** Sends what is queued, unless a wait is due. */
    suspend fun flush(): Flushed = answer { done -> client.flush { done(Result.success(it)) } }

    /** What is misconfigured, in sentences. */
    suspend fun check(): List<Finding> = answer { done -> client.check { done(Result.success(it)) } }

    /** Calls methods without waiting for their results. */
    fun later(work: suspend Signpost.() -> Unit) = work.startCoroutine(this, Continuation(EmptyCoroutineContext) { })

    private suspend fun <T> result(work: () -> T): T = answer { it(runCatching(work)) }

    private suspend fun <T> answer(work: ((Result<T>) -> Unit) -> Unit): T = suspendCoroutine { continuation ->
        platform.post {
            try {
                work(continuation::resumeWith)
            } catch (error: Exception) {
                continuation.resumeWithException(error)
            }
        }
    }
}
