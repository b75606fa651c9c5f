package signpost

private const val START_MS = 1_772_366_400_000L

/** Runs one case of sdk/vectors against the client. */
internal class VectorRun(private val case: Map<String, Any?>) {
    private val device = SimulatedDevice(
        START_MS,
        fieldsAt(case, "device") ?: mapOf("platform" to "ios"),
        case["referrer"] as String?,
        (case["random"] as List<*>?)?.map { (it as Number).toDouble() } ?: listOf(0.5),
    )
    private lateinit var client: Client
    private val links = ArrayList<Any?>()

    /** What calls returned, by the name that the step gave; a call that failed has its error. */
    private val results = HashMap<String, Any?>()
    private var held: ((Answer) -> Unit)? = null
    private val listener = { link: Link -> links.add(fieldsOf(link)).let { } }

    fun run() {
        fill()
        for ((at, step) in (case["steps"] as List<*>).withIndex()) {
            try {
                step(Json.objectOf(step)!!)
            } catch (error: Throwable) {
                throw AssertionError("step $at ${Json.text(step).take(200)}\n${error.message ?: error}", error)
            }
        }
    }

    private fun fill() {
        val stored = fieldsAt(case, "stored") ?: return
        if (stored["broken"] == true) for (key in listOf("state", "flight", "e000000000001-x")) device.texts[key] = "{"
        stored["state"]?.let { device.texts["state"] = Json.text(it) }
        val keys = (stored["queue"] as List<*>?).orEmpty().mapIndexed { at, event ->
            val key = "e${(at + 1).toString().padStart(12, '0')}-${Json.objectOf(event)!!["event_id"]}"
            device.texts[key] = Json.text(event)
            key
        }
        val flight = fieldsAt(stored, "flight") ?: return
        val ids = flight["event_ids"] as List<*>
        device.texts["flight"] = Json.text(flight - "event_ids" + ("keys" to keys.filter { it.substring(14) in ids }))
    }

    private fun step(step: Map<String, Any?>) {
        fieldsAt(step, "start")?.let { more -> client = Client(optionsFrom(fieldsAt(case, "options").orEmpty() + more), device.platform()).also(Client::start) }
        if (step["listen"] == true) client.listen(listener)
        (step["call"] as String?)?.let { call(it, step) }
        (step["advance"] as Long?)?.let(device::advance)
        (step["jump"] as Long?)?.let { device.nowMs += it }
        if (step["crash"] == true) device.die()
        val request = fieldsAt(step, "request")
        if (request != null) request(request, step["answer"] ?: "lost")
        else if ("answer" in step && step["answer"] != "hold") held!!(answerFrom(step["answer"]))
        if (step["idle"] == true) same("requests", emptyList<Any>(), device.requests.map { listOf(it.url, it.body) })
        if ("links" in step) {
            same("links", step["links"], links.toList())
            links.clear()
        }
        if ("result" in step && "call" !in step) same("result", step["is"], results[step["result"]])
        if ("fails" in step) check(step["with"].toString() in results[step["fails"]].toString()) { "no such failure: ${results[step["fails"]]}" }
        fieldsAt(step, "stored")?.let(::checkStored)
        fieldsAt(step, "kept")?.let {
            same("keys", listOf("state"), device.texts.keys.toList())
            same("state", it, Json.parsed(device.texts["state"]))
        }
    }

    private fun call(name: String, step: Map<String, Any?>) {
        val key = step["as"] as String? ?: ""
        for (n in 1..(step["times"] as Long? ?: 1)) {
            results[key] = "still running"
            val args = (step["args"] as List<*>?).orEmpty().map { filled(it, n) }
            try {
                invoke(name, args) { results[key] = it }
            } catch (error: Exception) {
                results[key] = error.toString()
            }
        }
        if ("result" in step) same("result", step["result"], results[key])
    }

    private fun invoke(name: String, args: List<Any?>, keep: (Any?) -> Unit) {
        val text = args.firstOrNull() as? String ?: ""
        val fields = Json.objectOf(args.lastOrNull()).orEmpty()
        when (name) {
            "open" -> client.open(text) { keep(it?.let(::fieldsOf)) }
            "pasted" -> client.pasted(text) { keep(it?.let(::fieldsOf)) }
            "firstLink" -> keep(client.firstLink()?.let(::fieldsOf))
            "lastLink" -> keep(client.lastLink()?.let(::fieldsOf))
            "track" -> {
                val revenue = fieldsAt(fields, "revenue")?.let { Revenue(it["amount"].toString(), it["currency"].toString()) }
                keep(client.track(text, fieldsAt(fields, "properties"), revenue, device.nowMs).let { null })
            }
            "identify" -> keep(client.identify(text).let { null })
            "reset" -> keep(client.identify(null).let { null })
            "setConsent" -> keep(client.setConsent(Consent.of(text)!!).let { null })
            "createLink" -> client.createLink(fields["path"].toString(), fields["campaign"] as String?, fieldsAt(fields, "data")) { made ->
                keep(made.fold({ mapOf("url" to it.url, "isLong" to it.isLong) }, { it.message }))
            }
            "flush" -> client.flush {
                val (full, expired, rejected, consent) = it.dropped
                keep(mapOf("queued" to it.queued, "dropped" to mapOf("full" to full, "expired" to expired, "rejected" to rejected, "consent" to consent)))
            }
            else -> error("no method $name")
        }
    }

    private fun request(expected: Map<String, Any?>, answer: Any?) {
        same("number of requests", 1, device.requests.size)
        val request = device.requests.removeAt(0)
        same("url", "https://api.example.com/v1${expected["path"]}", request.url)
        same("headers", mapOf("content-type" to "application/json", "x-api-key" to "lk_test"), request.headers)
        if ("body" in expected) same("body", filled(expected["body"], 0), request.body)
        if ("event_ids" in expected) {
            val events = Json.objectOf(request.body)!!["events"] as List<*>
            same("events", idsOf(expected["event_ids"]), events.map { Json.objectOf(it)!!["event_id"] })
        }
        if (answer == "hold") held = request.answer else request.answer(answerFrom(answer))
    }

    private fun checkStored(expected: Map<String, Any?>) {
        val state = Json.parsedObject(device.texts["state"]).orEmpty()
        for ((name, value) in fieldsAt(expected, "state").orEmpty()) same(name, value, state[name])
        val keys = device.texts.keys.filter { it.startsWith("e") }.sorted()
        if ("queue" in expected) same("queue", idsOf(expected["queue"]), keys.map { it.substring(14) })
        val flight = Json.parsedObject(device.texts["flight"])?.get("keys") as List<*>?
        if ("flight" in expected) same("flight", idsOf(expected["flight"]), flight.orEmpty().map { it.toString().substring(14) })
    }

    private fun optionsFrom(fields: Map<String, Any?>): Options {
        val hosts = (fields["linkHosts"] as List<*>?)?.map { it.toString() }
        return Options("https://api.example.com", "lk_test", Consent.of(fields["consent"]), hosts, fields["fallbackLink"] as String?)
    }

    private fun answerFrom(value: Any?): Answer {
        if (value == "lost") return Answer.Lost
        if (value == "unsent") return Answer.Unsent
        val fields = Json.objectOf(value)!!
        val headers = fieldsAt(fields, "headers").orEmpty().mapValues { it.value.toString() }
        return Answer.Reply((fields["status"] as Long).toInt(), headers, fields["body"])
    }
}

private fun fieldsAt(fields: Map<String, Any?>, name: String): Map<String, Any?>? = Json.objectOf(fields[name])

/** Compares as JSON: the order of members and the type of numbers don't matter. */
private fun same(what: String, expected: Any?, found: Any?) =
    check(plain(expected) == plain(found)) { "$what: expected ${Json.text(expected)}, found ${Json.text(found)}" }

private fun plain(value: Any?): Any? = when (value) {
    is Number -> value.toDouble()
    is Map<*, *> -> value.mapValues { plain(it.value) }
    is List<*> -> value.map(::plain)
    else -> value
}

/** `evt-1..evt-3` stands for three ids. */
private fun idsOf(texts: Any?): List<String> = (texts as List<*>).flatMap { text ->
    val range = Regex("(.+-)(\\d+)\\.\\.\\1(\\d+)").matchEntire(text.toString())?.destructured
    range?.let { (prefix, from, to) -> (from.toInt()..to.toInt()).map { prefix + it } } ?: listOf(text.toString())
}

/** `{n}` is the number of the call, and `{"$repeat": ["x", 3]}` is `xxx`. */
private fun filled(value: Any?, n: Long): Any? = when (value) {
    is String -> value.replace("{n}", n.toString())
    is List<*> -> value.map { filled(it, n) }
    is Map<*, *> -> {
        val repeat = value["\$repeat"] as List<*>?
        if (repeat == null) value.mapValues { filled(it.value, n) } else repeat[0].toString().repeat((repeat[1] as Long).toInt())
    }
    else -> value
}
