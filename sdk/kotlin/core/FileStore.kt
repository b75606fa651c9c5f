package signpost

import java.io.File
import java.io.FileOutputStream
import java.io.IOException

/** One file for each key. A text is on the disk, not only with the system, when `set` returns. */
internal class FileStore(private val folder: File) : Store {
    private val names = HashSet<String>()

    init {
        folder.mkdirs()
        for (name in folder.list().orEmpty()) if (name.endsWith(PART)) File(folder, name).delete() else names.add(name)
    }

    override fun get(key: String): String? =
        try {
            if (key in names) File(folder, key).readText() else null
        } catch (_: IOException) {
            null
        }

    override fun set(key: String, text: String) {
        val part = File(folder, key + PART)
        try {
            FileOutputStream(part).use {
                it.write(text.toByteArray(Charsets.UTF_8))
                it.fd.sync()
            }
            if (!part.renameTo(File(folder, key))) throw IOException("$part can't be renamed")
        } catch (error: IOException) {
            part.delete()
            throw error
        }
        names.add(key)
    }

    override fun remove(keys: Collection<String>) {
        for (key in keys) if (names.remove(key)) File(folder, key).delete()
    }

    override fun keys(): Collection<String> = names

    private companion object {
        const val PART = ".part"
    }
}
