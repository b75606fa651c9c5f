// Type-checked against stubs of the Android SDK; not run on a device.
package signpost

import android.app.Activity
import android.app.Application
import android.content.Context
import android.content.Intent
import android.os.Build
import android.os.Bundle
import android.os.Handler
import android.os.Looper
import java.io.File
import java.util.Locale
import java.util.TimeZone

/** Call it in `onCreate` of the application, in the app's main process only. Listeners run on the main thread. */
fun createSignpost(context: Context, options: Options): Signpost {
    val app = context.applicationContext
    val main = Handler(Looper.getMainLooper())
    val device = Device({ androidFields(app) }, playReferrer(app), { main.post(it) })
    val signpost = createSignpost(options, File(app.noBackupFilesDir, "signpost"), device)
    (app as? Application)?.registerActivityLifecycleCallbacks(FlushInBackground(signpost))
    return signpost
}

/**
 * App Links and links of the app's own scheme. Call it in `onCreate` of the activity that has the intent filter, and in
 * its `onNewIntent`. What the link means comes to `onLink`.
 * @param restored the `savedInstanceState` of `onCreate`: an activity that is restored has taken its link before.
 */
fun Signpost.handle(intent: Intent?, restored: Bundle? = null) {
    val url = intent?.dataString ?: return
    val isFromRecents = intent.flags and Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY != 0
    if (restored == null && !isFromRecents && intent.action == Intent.ACTION_VIEW) later { open(url) }
}

private fun androidFields(context: Context): Map<String, Any?> {
    val screen = context.resources.displayMetrics
    val locales = context.resources.configuration.let { configuration ->
        if (Build.VERSION.SDK_INT < 24) listOf(Locale.getDefault())
        else (0 until configuration.locales.size()).map(configuration.locales::get)
    }
    val languages = locales.map { it.toLanguageTag() }.take(32)
    return mapOf(
        "platform" to "android",
        "os_version" to Build.VERSION.RELEASE,
        "device_model" to Build.MODEL,
        "language" to languages.firstOrNull(),
        "languages" to languages,
        "timezone" to TimeZone.getDefault().id,
        "screen_width" to screen.widthPixels,
        "screen_height" to screen.heightPixels,
        "screen_scale" to screen.density,
        "app_version" to context.packageManager.getPackageInfo(context.packageName, 0).versionName,
        "sdk_name" to "kotlin",
        "sdk_version" to SDK_VERSION,
    )
}

/** Android may end an app that nobody sees. */
private class FlushInBackground(private val signpost: Signpost) : Application.ActivityLifecycleCallbacks {
    private var started = 0

    override fun onActivityStarted(activity: Activity) {
        started++
    }

    override fun onActivityStopped(activity: Activity) {
        if (--started == 0) signpost.later { flush() }
    }

    override fun onActivityCreated(activity: Activity, state: Bundle?) = Unit

    override fun onActivityResumed(activity: Activity) = Unit

    override fun onActivityPaused(activity: Activity) = Unit

    override fun onActivitySaveInstanceState(activity: Activity, state: Bundle) = Unit

    override fun onActivityDestroyed(activity: Activity) = Unit
}
