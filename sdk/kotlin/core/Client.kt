package signpost

import java.io.IOException

/**
 * The behaviour that all SDKs share, as the vectors describe it; on one thread. One piece of work at a time: the first
 * match, the install, events; a failure makes all of them wait. Links that open the app wait for none of them.
 */
internal class Client(private val options: Options, private val platform: Platform) {
    private val clock = ServerClock(platform::now)
    private val connection = Connection(platform, clock, options)
    private val queue = EventQueue(platform.store, ::drop)
    private val sending = EventSending(queue, connection, clock) { drop(EventQueue.Reason.REJECTED, it) }
    private val feed = LinkFeed(platform::deliver) { platform.post(::taken) }
    private var state = State()

    /** Changes with the consent; an answer to an earlier one is ignored. */
    private var generation = 0
    private var isWorking = false
    private val afterWork = ArrayDeque<() -> Unit>()
    private var isMatchDue = false
    private var areEventsDue = true
    private var isWaiting = false
    private var isBatchTimed = false

    /** Openings that are being resolved; the first match waits for them. */
    private var resolving = 0
    private var pendingTries = 0

    fun start() {
        state = State.load(platform.store)
        try {
            become(options.consent ?: state.consent ?: Consent.ALL)
        } catch (_: IOException) {
            // There is no room. What is tracked until there is some is dropped and counted.
        }
        val age = platform.now() - state.untakenAt
        state.untaken?.takeIf { age in 0 until Limits.UNTAKEN_LINK_MAX_MS }?.let(feed::deliver)
        matchLater(Limits.FIRST_OPEN_WAIT_MS)
    }

    fun listen(listener: (Link) -> Unit) = feed.listen(listener)

    fun stop(listener: (Link) -> Unit) = feed.stop(listener)

    fun open(url: String, done: (Link?) -> Unit) = resolve(evidenceOf(url, options.linkHosts), done)

    fun pasted(text: String, done: (Link?) -> Unit) = resolve(pastedEvidence(text), done)

    fun firstLink(): Link? = state.firstLink

    fun lastLink(): Link? = state.lastLink

    /** @param atMs when it happened, by the device's clock. */
    fun track(name: String, properties: Map<String, Any?>?, revenue: Revenue?, atMs: Long) {
        val eventId = platform.newId("evt")
        if (state.consent != Consent.ALL) return drop(EventQueue.Reason.CONSENT, 1)
        val isBad = name.isEmpty() || name.length > Limits.NAME_CHARS_MAX
        if (isBad || bytesOf(Json.text(properties.orEmpty())) > Limits.PROPERTIES_BYTES_MAX) return drop(EventQueue.Reason.REJECTED, 1)
        val event = mapOf(
            "name" to name,
            "event_id" to eventId,
            "timestamp" to clock.atServer(atMs),
            "properties" to properties,
            "revenue" to revenue?.let { mapOf("amount" to it.amount, "currency" to it.currency) },
            "user_id" to state.userId,
        )
        sending.add(event.filterValues { it != null })
        if (queue.keys().size >= Limits.BATCH_EVENTS_MAX) eventsDue() else batchLater()
    }

    /** @param userId null forgets the user. */
    fun identify(userId: String?) {
        state.userId = userId
        state.save(platform.store)
    }

    fun createLink(path: String, campaign: String?, data: Map<String, Any?>?, done: (Result<CreatedLink>) -> Unit) {
        val otherwise = { problem: String ->
            val fallback = options.fallbackLink
            if (fallback != null) done(Result.success(longForm(fallback, path, campaign, data)))
            else done(Result.failure(LinkNotCreated("The link was not created: $problem. Set fallbackLink for such cases.")))
        }
        if (state.consent == Consent.NONE) return otherwise("there is no consent")
        val body = mapOf("path" to path, "campaign" to campaign, "data" to data).filterValues { it != null }
        connection.ask("/sdk/links", body, "short_code") { outcome ->
            val refusal = Json.objectOf(outcome.body["error"])?.get("message") as? String
            val problem = refusal ?: "${options.host} did not answer"
            val status = outcome.reply?.status
            when {
                outcome.kind == Kind.OK -> done(Result.success(CreatedLink(outcome.body["url"].toString(), isLong = false)))
                status != null && status < 500 && status != 429 ->
                    done(Result.failure(LinkNotCreated("The link was not created: $problem")))
                else -> otherwise(problem)
            }
        }
    }

    fun setConsent(consent: Consent) {
        become(consent)
        run()
    }

    fun flush(done: (Flushed) -> Unit) {
        areEventsDue = true
        val send = {
            afterWork.addLast { done(Flushed(queue.keys().size, state.dropped)) }
            run()
        }
        if (isWorking) afterWork.addLast(send) else send()
    }

    fun check(done: (List<Finding>) -> Unit) = Check(options, platform, connection, clock).run(done)

    /** Everything that is kept is erased unless the consent is still complete. */
    private fun become(consent: Consent) {
        if (consent == state.consent) return
        generation++
        if (consent != Consent.ALL) {
            state = State(consent, state.opened, state.dropped)
            val queued = queue.clear()
            if (queued > 0) drop(EventQueue.Reason.CONSENT, queued)
        }
        state.consent = consent
        if (consent == Consent.ALL) {
            state.deviceId = state.deviceId ?: platform.newId("dev")
            state.installId = state.installId ?: platform.newId("ins")
        }
        state.save(platform.store)
    }

    private fun trySave() {
        try {
            state.save(platform.store)
        } catch (_: IOException) {
            // There is no room. The next change saves it.
        }
    }

    private fun drop(reason: EventQueue.Reason, count: Int) {
        val dropped = state.dropped
        state.dropped = when (reason) {
            EventQueue.Reason.FULL -> dropped.copy(full = dropped.full + count)
            EventQueue.Reason.EXPIRED -> dropped.copy(expired = dropped.expired + count)
            EventQueue.Reason.REJECTED -> dropped.copy(rejected = dropped.rejected + count)
            EventQueue.Reason.CONSENT -> dropped.copy(consent = dropped.consent + count)
        }
        if (state.consent == Consent.ALL) trySave()
    }

    private fun taken() {
        if (state.untaken == null) return
        state.untaken = null
        trySave()
    }

    private fun matchLater(delayMs: Long) = platform.timer(delayMs) {
        isMatchDue = true
        run()
    }

    private fun batchLater() {
        if (isBatchTimed) return
        isBatchTimed = true
        platform.timer(Limits.BATCH_WAIT_MS) {
            isBatchTimed = false
            eventsDue()
        }
    }

    private fun eventsDue() {
        areEventsDue = true
        run()
    }

    private fun pause(delayMs: Long) {
        isWaiting = true
        platform.timer(delayMs) {
            isWaiting = false
            run()
        }
    }

    /** Works until there is nothing to do or a wait is due. */
    private fun run() {
        if (isWorking) return
        isWorking = true
        proceed { }
    }

    /** Settles what was answered, and takes the next step. */
    private fun proceed(settle: () -> Unit) {
        try {
            settle()
            if (!isWaiting && step()) return
        } catch (_: Exception) {
            // The storage failed. Whatever else it was, the app goes on.
            pause(Limits.BACKOFF_MAX_MS)
        }
        isWorking = false
        val waiting = afterWork.toList()
        afterWork.clear()
        for (next in waiting) next()
    }

    /** @return whether a request was begun, after whose answer the work goes on. */
    private fun step(): Boolean {
        when {
            state.consent == Consent.NONE -> return false
            !state.opened && isMatchDue && resolving == 0 -> match()
            state.opened && !state.installed && state.consent == Consent.ALL -> install()
            state.consent == Consent.ALL && areEventsDue -> return sendEvents()
            else -> return false
        }
        return true
    }

    private fun sendEvents(): Boolean {
        val before = generation
        val context = mapOf("device_id" to state.deviceId, "install_id" to state.installId, "platform" to platform.device()["platform"])
        val isSending = sending.send(context.filterValues { it != null }, platform.now()) { batch, outcome ->
            proceed {
                // If the consent was withdrawn meanwhile, the queue is gone.
                if (before == generation) {
                    sending.settle(batch, outcome)
                    isFinal(outcome)
                }
            }
        }
        if (!isSending) areEventsDue = false
        return isSending
    }

    /** The first match, without evidence in a URL. */
    private fun match() = withReferrer { referrer ->
        ask("/sdk/match", referrer, "match_type", Limits.REQUEST_TIMEOUT_MS) { outcome ->
            proceed {
                if (outcome == null || !isFinal(outcome)) return@proceed
                if (outcome.isPending && pendingTries++ < Limits.PENDING_CLICK_TRIES_MAX) {
                    isMatchDue = false
                    matchLater(outcome.body["retry_after_ms"] as? Long ?: Limits.BACKOFF_MIN_MS)
                } else answered(outcome.body, Evidence())
            }
        }
    }

    private fun install() = withReferrer { referrer ->
        val fields = mapOf("match_id" to state.matchId, "user_id" to state.userId) + referrer
        ask("/sdk/install", fields, "install_id", Limits.REQUEST_TIMEOUT_MS) { outcome ->
            proceed {
                if (outcome == null || !isFinal(outcome)) return@proceed
                state.installed = true
                trySave()
            }
        }
    }

    /** If not, the wait begins. */
    private fun isFinal(outcome: Outcome): Boolean {
        val waitMs = connection.waitMs(outcome)
        if (waitMs > 0) pause(waitMs)
        return waitMs == 0L
    }

    private fun withReferrer(then: (Map<String, Any?>) -> Unit) {
        val before = generation
        platform.referrer { referrer ->
            if (before != generation) proceed { }
            else then(if (referrer.isNullOrEmpty()) emptyMap() else mapOf("install_referrer" to referrer))
        }
    }

    /** `done` gets null if the consent changed meanwhile. */
    private fun ask(path: String, fields: Map<String, Any?>, proof: String, timeoutMs: Long, done: (Outcome?) -> Unit) {
        val before = generation
        val body = platform.device() + mapOf("device_id" to state.deviceId, "install_id" to state.installId) + fields
        connection.ask(path, body.filterValues { it != null }, proof, timeoutMs) { done(if (before == generation) it else null) }
    }

    private fun resolve(evidence: Evidence?, done: (Link?) -> Unit) {
        if (evidence == null) return done(null)
        resolving++
        tryOpen(evidence, 1) { link ->
            resolving--
            done(link)
            run()
        }
    }

    /** Tries within a few seconds: a link that is resolved later would lead the person away from something else. */
    private fun tryOpen(evidence: Evidence, tries: Int, done: (Link?) -> Unit) {
        if (state.consent == Consent.NONE) return done(null)
        ask("/sdk/match", evidence.fields, "match_type", Limits.OPEN_TIMEOUT_MS) { outcome ->
            val isLast = tries == Limits.OPEN_TRIES_MAX
            when {
                outcome == null -> done(null)
                outcome.kind == Kind.OK && (isLast || !outcome.isPending) -> done(answered(outcome.body, evidence))
                isLast || outcome.isHopeless || outcome.retryAfterMs > 0 -> done(null)
                else -> {
                    val limit = Limits.OPEN_BACKOFF_MIN_MS shl (tries - 1)
                    val delayMs = outcome.body["retry_after_ms"] as? Long ?: Math.round(platform.random() * limit)
                    platform.timer(delayMs) { tryOpen(evidence, tries + 1, done) }
                }
            }
        }
    }

    /** Takes the answer of a match. */
    private fun answered(body: Map<String, Any?>, evidence: Evidence): Link? {
        val isFirstOpen = !state.opened
        if (isFirstOpen) {
            state.opened = true
            state.matchId = body["match_id"] as? String
        }
        val isFirst = state.firstLink == null && (isFirstOpen || state.consent == Consent.ALL)
        val link = linkOf(body, evidence, isFirstOpen, isFirst)
        if (link != null) {
            state.firstLink = state.firstLink ?: link
            state.lastLink = link
            if (link.isDeferred) {
                state.untaken = link
                state.untakenAt = platform.now()
            }
        }
        trySave()
        if (link != null) feed.deliver(link)
        return link
    }
}
