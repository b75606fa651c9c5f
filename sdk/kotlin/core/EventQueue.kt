package signpost

import java.io.IOException

/** Events that were sent without an answer. @property since when they were first sent. @property last when they were last sent. */
internal data class Flight(val keys: List<String>, val since: Long, val last: Long)

internal class EventBatch(val keys: List<String>, val events: List<Map<String, Any?>>, val flight: Flight?)

/**
 * The events on the device, one file each. Batches that were sent without an answer are in doubt: they are sent again as
 * they were, and dropped before the server forgets their ids.
 */
internal class EventQueue(private val store: Store, private val onDrop: (reason: Reason, count: Int) -> Unit) {
    enum class Reason { FULL, EXPIRED, REJECTED, CONSENT }

    /** In order. */
    fun keys(): List<String> = store.keys().filter { it.startsWith("e") }.sorted()

    /** @return whether there was room. */
    fun add(event: Map<String, Any?>): Boolean {
        val keys = keys()
        val number = (keys.lastOrNull()?.substring(1, 13)?.toLongOrNull() ?: 0) + 1
        val key = "e${number.toString().padStart(12, '0')}-${event["event_id"]}"
        val inFlight = flight()?.keys.orEmpty().toSet()
        val free = keys.filterTo(ArrayDeque()) { it !in inFlight }
        var surplus = keys.size - Limits.QUEUE_EVENTS_MAX + 1
        while (true) {
            val dropped = (0 until surplus).mapNotNull { free.removeFirstOrNull() }
            if (dropped.isNotEmpty()) {
                store.remove(dropped)
                onDrop(Reason.FULL, dropped.size)
            }
            try {
                store.set(key, Json.text(event))
                return true
            } catch (_: IOException) {
                // The device's storage is full.
                if (free.isEmpty()) break
                surplus = 1
            }
        }
        onDrop(Reason.FULL, 1)
        return false
    }

    fun flight(): Flight? {
        val stored = Json.parsedObject(store.get("flight")) ?: return null
        val keys = (stored["keys"] as? List<*>)?.filterIsInstance<String>() ?: return null
        return Flight(keys, stored["since"] as? Long ?: return null, stored["last"] as? Long ?: return null)
    }

    /** What to send next: what is in doubt, else the oldest events. Null if there is nothing. */
    fun next(countMax: Int, bytesMax: Int, nowMs: Long): EventBatch? {
        val all = keys()
        var flight = flight()
        var open = all
        if (flight != null) {
            val inFlight = flight.keys.toSet()
            open = all.filter { it in inFlight }
            // A clock that went back hides how long ago they were sent.
            val isExpired = nowMs - flight.since >= Limits.IN_DOUBT_MAX_MS || nowMs < flight.last - Limits.CLOCK_BACK_MAX_MS
            if (isExpired && open.isNotEmpty()) {
                remove(open, null)
                onDrop(Reason.EXPIRED, open.size)
                open = emptyList()
            }
            if (open.isEmpty()) {
                land(null)
                flight = null
                open = keys()
            }
        }
        return batch(open, countMax, bytesMax, flight)
    }

    private fun batch(open: List<String>, countMax: Int, bytesMax: Int, flight: Flight?): EventBatch? {
        val keys = ArrayList<String>()
        val events = ArrayList<Map<String, Any?>>()
        val broken = ArrayList<String>()
        var bytes = Limits.CONTEXT_BYTES_MAX
        for (key in open) {
            if (keys.size >= countMax) break
            val text = store.get(key).orEmpty()
            bytes += bytesOf(text) + 1
            if (bytes > bytesMax && keys.isNotEmpty()) break
            val event = Json.parsedObject(text)?.takeIf { it["event_id"] is String && it["timestamp"] is Long }
            if (event == null) {
                broken.add(key)
                continue
            }
            keys.add(key)
            events.add(event)
        }
        if (broken.isNotEmpty()) store.remove(broken)
        return if (keys.isEmpty()) null else EventBatch(keys, events, flight)
    }

    /** Erases everything that is kept, not only events. @return the number of events. */
    fun clear(): Int {
        val keys = store.keys().toList()
        store.remove(keys)
        return keys.count { it.startsWith("e") }
    }

    /** Stores an event as it is sent: a retry has to say the same. */
    fun change(key: String, event: Map<String, Any?>) = store.set(key, Json.text(event))

    /** Notes that the batch is being sent: from now on it is in doubt. */
    fun launch(batch: EventBatch, nowMs: Long) =
        land(Flight(batch.flight?.keys ?: batch.keys, batch.flight?.since ?: nowMs, nowMs))

    /** Goes back to what was in doubt before. */
    fun land(flight: Flight?) {
        if (flight == null) store.remove(listOf("flight"))
        else store.set("flight", Json.text(mapOf("keys" to flight.keys, "since" to flight.since, "last" to flight.last)))
    }

    /** Removes events that have a final answer. */
    fun remove(keys: List<String>, flight: Flight?) {
        val rest = flight?.keys.orEmpty() - keys.toSet()
        store.remove(if (rest.isEmpty()) keys + "flight" else keys)
        if (flight != null && rest.isNotEmpty()) land(flight.copy(keys = rest))
    }
}

internal fun bytesOf(text: String): Int = text.toByteArray(Charsets.UTF_8).size
