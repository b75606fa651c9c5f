package signpost

import java.io.File
import kotlin.system.exitProcess

/** Runs all vectors in the folder of the first argument. */
fun main(args: Array<String>) {
    var passed = 0
    var failed = 0
    for (file in File(args[0]).listFiles().orEmpty().filter { it.extension == "json" }.sorted()) {
        for (case in Json.parsedObject(file.readText())!!["cases"] as List<*>) {
            val fields = Json.objectOf(case)!!
            // Pages and servers have the TypeScript SDK.
            if ((fields["kind"] ?: "device") != "device") continue
            try {
                VectorRun(fields).run()
                passed++
            } catch (error: AssertionError) {
                failed++
                println("FAILED ${file.name}: ${fields["title"]}\n${error.message}\n")
            }
        }
    }
    println("vectors: $passed passed, $failed failed")
    if (failed > 0 || passed < 50) exitProcess(1)
}
