package signpost

import kotlin.math.max
import kotlin.math.min

/** Sends the queue in batches, and removes what has a final answer. */
internal class EventSending(
    private val queue: EventQueue,
    private val connection: Connection,
    private val clock: ServerClock,
    private val onRejected: (count: Int) -> Unit,
) {
    /** Halved by each 413. */
    private var countMax = Limits.BATCH_EVENTS_MAX

    /** Halved by each request that was too slow, and larger again after answers. */
    private var bytesMax = Limits.BATCH_BYTES_MAX

    /** Events that were tracked before the server's clock was known. */
    private val untimed = HashSet<String>()

    fun add(event: Map<String, Any?>) {
        if (queue.add(event) && clock.offsetMs == null) untimed.add(event["event_id"].toString())
    }

    /** @return false if there is nothing to send; else `done` gets the outcome, which `settle` takes. */
    fun send(context: Map<String, Any?>, nowMs: Long, done: (EventBatch, Outcome) -> Unit): Boolean {
        val batch = queue.next(countMax, bytesMax, nowMs) ?: return false
        val events = if (batch.flight == null) timed(batch) else batch.events
        queue.launch(batch, nowMs)
        connection.ask("/sdk/events", mapOf("events" to events, "context" to context), "accepted") { done(batch, it) }
        return true
    }

    /** With the server's time, as far as it is known by now. */
    private fun timed(batch: EventBatch): List<Map<String, Any?>> {
        val timed = batch.events.mapIndexed { at, event ->
            val tracked = event["timestamp"] as Long
            val shift = if (event["event_id"] in untimed) clock.offsetMs ?: 0 else 0
            val timestamp = min(tracked + shift, clock.now())
            if (timestamp == tracked) event
            else (event + ("timestamp" to timestamp)).also { queue.change(batch.keys[at], it) }
        }
        if (clock.offsetMs != null) untimed.removeAll(batch.events.map { it["event_id"].toString() }.toSet())
        return timed
    }

    fun settle(batch: EventBatch, outcome: Outcome) {
        if (outcome.kind == Kind.IN_DOUBT) {
            // Lost, as after a time-out, or too slow for the server.
            if ((outcome.reply?.status ?: 408) == 408) bytesMax = max(Limits.BATCH_BYTES_MIN, bytesMax / 2)
            return
        }
        if (outcome.kind == Kind.OK) bytesMax = min(Limits.BATCH_BYTES_MAX, bytesMax + Limits.BATCH_BYTES_STEP)
        if (outcome.kind == Kind.DECLINED) return queue.land(batch.flight)
        if (outcome.reply?.status == 413 && batch.keys.size > 1) {
            countMax = (batch.keys.size + 1) / 2
            return queue.land(batch.flight)
        }
        // Refused for its time by a clock that was just corrected: once more.
        val again = if (outcome.clockChanged) refusedForTime(outcome) else emptySet()
        queue.remove(batch.keys.filterIndexed { at, _ -> at !in again }, batch.flight)
        val rejected = if (outcome.kind == Kind.OK) (outcome.body["rejected"] as? Long ?: 0).toInt() else batch.keys.size
        if (rejected > again.size) onRejected(rejected - again.size)
    }
}

private val timeField = Regex("(?:events\\[(\\d+)\\]\\.)?timestamp")

/** Indexes of the events whose timestamp was refused; in a 400 they are in the names of the fields. */
private fun refusedForTime(outcome: Outcome): Set<Int> {
    val details = Json.objectOf(Json.objectOf(outcome.body["error"])?.get("details")) ?: outcome.body
    val errors = details["errors"] as? List<*> ?: listOf(details)
    return errors.mapNotNullTo(HashSet()) { error ->
        val fields = Json.objectOf(error)
        val named = timeField.matchEntire(fields?.get("field")?.toString().orEmpty())
        if (named == null) null else (fields?.get("index") as? Long)?.toInt() ?: named.groupValues[1].toIntOrNull()
    }
}
