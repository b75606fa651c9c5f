// Type-checked against stubs of the Install Referrer library; not run on a device.
package signpost

import android.content.Context
import com.android.installreferrer.api.InstallReferrerClient
import com.android.installreferrer.api.InstallReferrerStateListener

/** Asks the Play Store; null where it is missing, for example in other stores' devices. */
internal fun playReferrer(context: Context): (done: (String?) -> Unit) -> Unit = { done ->
    val client = InstallReferrerClient.newBuilder(context).build()
    val listener = object : InstallReferrerStateListener {
        override fun onInstallReferrerSetupFinished(code: Int) {
            val isOk = code == InstallReferrerClient.InstallReferrerResponse.OK
            done(if (isOk) runCatching { client.installReferrer.installReferrer }.getOrNull() else null)
            runCatching { client.endConnection() }
        }

        override fun onInstallReferrerServiceDisconnected() = done(null)
    }
    runCatching { client.startConnection(listener) }.onFailure { done(null) }
}
