package signpost

import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow

/** Every link, as `onLink` gets them. */
val Signpost.links: Flow<Link>
    get() = callbackFlow {
        val stop = onLink { trySend(it) }
        awaitClose { stop() }
    }.buffer(Limits.UNTAKEN_LINKS_MAX, BufferOverflow.DROP_OLDEST)
