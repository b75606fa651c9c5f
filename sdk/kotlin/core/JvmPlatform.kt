package signpost

import java.io.File
import java.util.UUID
import java.util.concurrent.ScheduledThreadPoolExecutor
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import kotlin.random.Random

/**
 * What differs between Android and other JVMs.
 * @property fields what the device says about itself, with the field names of POST /sdk/match; `platform` is required.
 * @property referrer asks for the Play Store's referrer, and calls back on any thread.
 * @property deliver runs listeners, for example on the main thread.
 */
class Device(
    val fields: () -> Map<String, Any?>,
    val referrer: (done: (String?) -> Unit) -> Unit = { it(null) },
    val deliver: (work: () -> Unit) -> Unit = { it() },
)

/** Files, HTTP and one thread for the core. */
internal class JvmPlatform(folder: File, private val device: Device) : Platform {
    private val thread = ScheduledThreadPoolExecutor(1, daemons("signpost"))
    private val http = HttpSend(ScheduledThreadPoolExecutor(1, daemons("signpost-timeouts")).apply { removeOnCancelPolicy = true })
    private val fields by lazy(device.fields)

    // Created by the first use, which is on the core's thread.
    override val store: Store by lazy { FileStore(folder) }

    override fun send(url: String, headers: Map<String, String>, body: String, timeoutMs: Long, done: (Answer) -> Unit) =
        http.send(url, headers, body, timeoutMs) { answer -> post { done(answer) } }

    override fun status(url: String, done: (Int) -> Unit) =
        http.send(url, emptyMap(), null, Limits.REQUEST_TIMEOUT_MS) { answer -> post { done((answer as? Answer.Reply)?.status ?: 0) } }

    override fun now(): Long = System.currentTimeMillis()

    override fun random(): Double = Random.nextDouble()

    override fun newId(kind: String): String = "$kind-${UUID.randomUUID()}"

    override fun timer(delayMs: Long, fire: () -> Unit) {
        thread.schedule(fire, delayMs, TimeUnit.MILLISECONDS)
    }

    override fun device(): Map<String, Any?> = fields

    /** The Play Store may never answer. */
    override fun referrer(done: (String?) -> Unit) {
        val isDone = AtomicBoolean(false)
        val once = { referrer: String? -> if (isDone.compareAndSet(false, true)) post { done(referrer) } }
        timer(Limits.REFERRER_WAIT_MS) { once(null) }
        device.referrer(once)
    }

    override fun deliver(work: () -> Unit) = device.deliver(work)

    override fun post(work: () -> Unit) = thread.execute(work)
}
