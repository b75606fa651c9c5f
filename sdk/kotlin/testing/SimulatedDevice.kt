package signpost

/** A platform in memory: its clock and timers are driven, its requests wait for an answer. */
internal class SimulatedDevice(
    startMs: Long,
    private val fields: Map<String, Any?>,
    private val referrer: String?,
    private val random: List<Double>,
) {
    class Request(val url: String, val headers: Map<String, String>, val body: Any?, val answer: (Answer) -> Unit)

    private class Timer(val at: Long, val fire: () -> Unit)

    val texts = LinkedHashMap<String, String>()
    val requests = ArrayList<Request>()
    private val ids = HashMap<String, Int>()
    private var drawn = 0
    var nowMs = startMs

    /** Does not jump. */
    private var ticks = 0L
    private val timers = ArrayList<Timer>()

    /** A process that has died does nothing more. */
    private var life = 0

    fun die() {
        life++
        timers.clear()
        requests.clear()
    }

    fun advance(ms: Long) {
        val end = ticks + ms
        while (true) {
            val next = timers.filter { it.at <= end }.minByOrNull { it.at }
            val to = next?.at ?: end
            nowMs += to - ticks
            ticks = to
            if (next == null) return
            timers.remove(next)
            next.fire()
        }
    }

    /** For one life of the process. */
    fun platform(): Platform = object : Platform {
        private val ownLife = life

        override val store = object : Store {
            override fun get(key: String) = texts[key]

            override fun set(key: String, text: String) {
                check(ownLife == life) { "this process has died" }
                texts[key] = text
            }

            override fun remove(keys: Collection<String>) {
                check(ownLife == life) { "this process has died" }
                texts.keys.removeAll(keys.toSet())
            }

            override fun keys() = texts.keys
        }

        override fun send(url: String, headers: Map<String, String>, body: String, timeoutMs: Long, done: (Answer) -> Unit) {
            requests.add(Request(url, headers, Json.parsed(body)) { if (ownLife == life) done(it) })
        }

        override fun status(url: String, done: (Int) -> Unit) = done(0)

        override fun now() = nowMs

        override fun random() = random[minOf(drawn++, random.size - 1)]

        override fun newId(kind: String): String {
            val number = (ids[kind] ?: 0) + 1
            ids[kind] = number
            return "$kind-$number"
        }

        override fun timer(delayMs: Long, fire: () -> Unit) {
            timers.add(Timer(ticks + delayMs, fire))
        }

        override fun device() = fields

        override fun referrer(done: (String?) -> Unit) = done(referrer)

        override fun post(work: () -> Unit) = work()

        override fun deliver(work: () -> Unit) = work()
    }
}
