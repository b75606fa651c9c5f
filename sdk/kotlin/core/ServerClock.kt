package signpost

import kotlin.math.abs

/** The difference between the device's clock and the server's, from the header X-RateLimit-Reset: at most a minute after now. */
internal class ServerClock(private val deviceNow: () -> Long) {
    /** What to add to the device's clock; null before the first answer. */
    var offsetMs: Long? = null
        private set

    fun now(): Long = atServer(deviceNow())

    fun atServer(deviceMs: Long): Long = deviceMs + (offsetMs ?: 0)

    /** @return whether the difference has changed, so that a refused time may be accepted now. */
    fun learn(reset: String?): Boolean {
        val resetMs = (reset?.toLongOrNull() ?: 0) * 1_000
        if (resetMs == 0L) return false
        val offset = resetMs - 30_000 - deviceNow()
        val before = offsetMs ?: 0
        val after = if (abs(offset) > Limits.CLOCK_TOLERANCE_MS) offset else 0
        offsetMs = after
        return abs(after - before) > Limits.CLOCK_TOLERANCE_MS
    }
}
