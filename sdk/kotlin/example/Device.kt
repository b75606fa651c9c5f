/**
 * A device on the command line: `Device.kt <host> <key> <folder> <referrer>`. It prints each link that opens the app, and
 * takes one command a line. An app on Android does the same with `createSignpost(context, Options(host, key))`.
 */
import java.io.File
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import signpost.Consent
import signpost.Device
import signpost.LinkNotCreated
import signpost.Options
import signpost.Revenue
import signpost.createSignpost
import signpost.links

fun main(args: Array<String>) = runBlocking {
    val (host, key, folder, referrer) = args
    val fields = mapOf("platform" to "android", "os_version" to "15", "device_model" to "Pixel 8", "language" to "en-GB")
    val device = Device(fields = { fields }, referrer = { done -> done(referrer) })
    val signpost = createSignpost(Options(host, key), File(folder), device)

    val links = launch(Dispatchers.Default) {
        signpost.links.collect { link -> println("link ${link.path} ${link.matchType} deferred=${link.isDeferred}") }
    }
    for (line in generateSequence(::readlnOrNull)) {
        val words = line.split(' ')
        val argument = words.getOrElse(1) { "" }
        when (words[0]) {
            "track" -> {
                signpost.track(argument, mapOf("from" to "device"), words.getOrNull(2)?.let { Revenue(it, "EUR") })
                println("tracked $argument")
            }
            "identify" -> println("identified $argument").also { signpost.identify(argument) }
            "open" -> println("opened ${signpost.open(argument)?.path}")
            "create" ->
                try {
                    println("created ${signpost.createLink(argument, campaign = "invites").url}")
                } catch (error: LinkNotCreated) {
                    println(error.message)
                }
            "flush" -> {
                val (queued, dropped) = signpost.flush()
                println("flushed queued=$queued dropped=${dropped.full + dropped.expired + dropped.rejected + dropped.consent}")
            }
            "check" -> println(signpost.check().joinToString("\n") { "${if (it.ok) "ok" else "problem"}: ${it.text}" } + "\nchecked")
            "consent" -> println("consent $argument").also { signpost.setConsent(Consent.valueOf(argument.uppercase())) }
            else -> println("track <name> [amount] · identify <user> · open <url> · create <path> · flush · check · consent all|links|none")
        }
    }
    links.cancel()
}
