package signpost

import java.io.IOException
import java.io.InputStream
import java.net.ConnectException
import java.net.HttpURLConnection
import java.net.NoRouteToHostException
import java.net.URL
import java.net.UnknownHostException
import java.util.Locale
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.ScheduledExecutorService
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit
import javax.net.ssl.SSLHandshakeException

/** HTTP over HttpURLConnection, which Android and all other JVMs have. Answers come on a thread of its own. */
internal class HttpSend(private val timers: ScheduledExecutorService) {
    private val requests = ThreadPoolExecutor(
        Limits.REQUESTS_AT_ONCE_MAX,
        Limits.REQUESTS_AT_ONCE_MAX,
        30,
        TimeUnit.SECONDS,
        LinkedBlockingQueue(Limits.REQUESTS_WAITING_MAX),
        daemons("signpost-http"),
    ).apply { allowCoreThreadTimeOut(true) }

    /** @param body null for a GET. */
    fun send(url: String, headers: Map<String, String>, body: String?, timeoutMs: Long, done: (Answer) -> Unit) {
        try {
            requests.execute { done(exchange(url, headers, body?.toByteArray(Charsets.UTF_8), timeoutMs)) }
        } catch (_: RejectedExecutionException) {
            done(Answer.Unsent)
        }
    }

    private fun exchange(url: String, headers: Map<String, String>, body: ByteArray?, timeoutMs: Long): Answer {
        val connection = try {
            URL(url).openConnection() as? HttpURLConnection ?: return Answer.Unsent
        } catch (_: IOException) {
            return Answer.Unsent
        }
        // The time-outs below are for each read.
        val cut = timers.schedule({ connection.disconnect() }, timeoutMs, TimeUnit.MILLISECONDS)
        return try {
            connection.connectTimeout = timeoutMs.toInt()
            connection.readTimeout = timeoutMs.toInt()
            connection.useCaches = false
            // A redirected POST would become a GET.
            connection.instanceFollowRedirects = body == null
            for ((name, value) in headers) connection.setRequestProperty(name, value)
            if (body != null) {
                connection.requestMethod = "POST"
                connection.doOutput = true
                // Otherwise a POST may be repeated without notice.
                connection.setFixedLengthStreamingMode(body.size)
                connection.outputStream.use { it.write(body) }
            }
            replyOf(connection)
        } catch (error: Exception) {
            if (isUnsent(error)) Answer.Unsent else Answer.Lost
        } finally {
            cut.cancel(false)
        }
    }

    private fun replyOf(connection: HttpURLConnection): Answer {
        val status = connection.responseCode
        if (status < 100) return Answer.Lost
        val text = (if (status < 400) connection.inputStream else connection.errorStream)?.use(::textOf)
        val headers = HashMap<String, String>()
        for ((name, values) in connection.headerFields) if (name != null) headers[name.lowercase(Locale.ROOT)] = values.first()
        return Answer.Reply(status, headers, Json.parsed(text))
    }

    private fun textOf(stream: InputStream): String {
        val bytes = java.io.ByteArrayOutputStream()
        val chunk = ByteArray(8_192)
        while (bytes.size() <= Limits.REPLY_BYTES_MAX) {
            val count = stream.read(chunk)
            if (count < 0) return bytes.toString("UTF-8")
            bytes.write(chunk, 0, count)
        }
        throw IOException("the answer is too long")
    }

    /** Whether the request certainly did not reach the server. */
    private fun isUnsent(error: Exception): Boolean =
        error is UnknownHostException || error is ConnectException || error is NoRouteToHostException ||
            error is SSLHandshakeException || error is SecurityException
}

internal fun daemons(name: String) = java.util.concurrent.ThreadFactory { work -> Thread(work, name).apply { isDaemon = true } }
