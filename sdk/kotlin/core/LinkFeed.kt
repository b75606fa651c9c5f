package signpost

/** Hands links to the app. Those that come before the first listener wait for it. */
internal class LinkFeed(private val deliverLater: (() -> Unit) -> Unit, private val onTaken: () -> Unit) {
    private val listeners = LinkedHashSet<(Link) -> Unit>()
    private val untaken = ArrayDeque<Link>()

    fun listen(listener: (Link) -> Unit) {
        listeners.add(listener)
        val waiting = untaken.toList()
        untaken.clear()
        for (link in waiting) deliver(link)
    }

    fun stop(listener: (Link) -> Unit) {
        listeners.remove(listener)
    }

    fun deliver(link: Link) {
        if (listeners.isEmpty()) {
            untaken.addLast(link)
            if (untaken.size > Limits.UNTAKEN_LINKS_MAX) untaken.removeFirst()
            return
        }
        val present = listeners.toList()
        deliverLater {
            // A listener that throws has taken the link: it would throw again at each start.
            try {
                for (listener in present) listener(link)
            } finally {
                onTaken()
            }
        }
    }
}
