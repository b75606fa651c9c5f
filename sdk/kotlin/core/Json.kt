package signpost

/** JSON as maps, lists, texts, `Long`, `Double`, `Boolean` and null. Android has a parser of its own, other JVMs have none. */
internal object Json {
    class Malformed(message: String) : Exception(message)

    /** Null if the text is no JSON. */
    fun parsed(text: String?): Any? =
        try {
            text?.let { Reader(it).all() }
        } catch (_: Malformed) {
            null
        }

    /** Null if the text is no JSON object. */
    fun parsedObject(text: String?): Map<String, Any?>? = objectOf(parsed(text))

    @Suppress("UNCHECKED_CAST")
    fun objectOf(value: Any?): Map<String, Any?>? = value as? Map<String, Any?>

    fun text(value: Any?): String = StringBuilder().also { write(value, it) }.toString()

    private fun write(value: Any?, to: StringBuilder) {
        when (value) {
            null -> to.append("null")
            is String -> writeText(value, to)
            is Double -> to.append(if (value.isNaN() || value.isInfinite()) "null" else value.toString())
            is Float -> write(value.toString().toDouble(), to)
            is Number, is Boolean -> to.append(value.toString())
            is Map<*, *> -> writeAll('{', value.entries, '}', to) { (name, one) ->
                writeText(name.toString(), to)
                to.append(':')
                write(one, to)
            }
            is Iterable<*> -> writeAll('[', value, ']', to) { write(it, to) }
            is Array<*> -> write(value.asList(), to)
            else -> writeText(value.toString(), to)
        }
    }

    private fun <T> writeAll(open: Char, values: Iterable<T>, close: Char, to: StringBuilder, each: (T) -> Unit) {
        to.append(open)
        for ((at, value) in values.withIndex()) {
            if (at > 0) to.append(',')
            each(value)
        }
        to.append(close)
    }

    private fun writeText(text: String, to: StringBuilder) {
        to.append('"')
        for ((at, char) in text.withIndex()) {
            val isLone = char.isHighSurrogate() && text.getOrNull(at + 1)?.isLowSurrogate() != true ||
                char.isLowSurrogate() && text.getOrNull(at - 1)?.isHighSurrogate() != true
            when {
                char == '"' || char == '\\' -> to.append('\\').append(char)
                char == '\n' -> to.append("\\n")
                char < ' ' || isLone -> to.append("\\u").append(char.code.toString(16).padStart(4, '0'))
                else -> to.append(char)
            }
        }
        to.append('"')
    }

    private class Reader(private val text: String) {
        private var at = 0

        fun all(): Any? {
            val value = value(0)
            if (peek() != null) fail()
            return value
        }

        private fun value(depth: Int): Any? {
            if (depth > Limits.JSON_DEPTH_MAX) fail()
            return when (peek()) {
                '{' -> members(depth)
                '[' -> items(depth)
                '"' -> string()
                't' -> word("true", true)
                'f' -> word("false", false)
                'n' -> word("null", null)
                else -> number()
            }
        }

        private fun members(depth: Int): Map<String, Any?> {
            val members = LinkedHashMap<String, Any?>()
            each('}') {
                if (peek() != '"') fail()
                val name = string()
                take(':')
                members[name] = value(depth + 1)
            }
            return members
        }

        private fun items(depth: Int): List<Any?> = ArrayList<Any?>().also { each(']') { it.add(value(depth + 1)) } }

        private fun each(close: Char, one: () -> Unit) {
            at++
            if (peek() == close) {
                at++
                return
            }
            while (true) {
                one()
                if (peek() == close) break
                take(',')
            }
            at++
        }

        private fun string(): String {
            val found = StringBuilder()
            at++
            while (true) {
                val char = text.getOrNull(at++) ?: fail()
                when {
                    char == '"' -> return found.toString()
                    char < ' ' -> fail()
                    char == '\\' -> found.append(escaped())
                    else -> found.append(char)
                }
            }
        }

        private fun escaped(): Char {
            val char = text.getOrNull(at++) ?: fail()
            if (char == 'u') {
                val code = text.substring(at, minOf(at + 4, text.length)).takeIf { it.length == 4 }?.toIntOrNull(16) ?: fail()
                at += 4
                return code.toChar()
            }
            val index = "\"\\/bfnrt".indexOf(char)
            return if (index < 0) fail() else "\"\\/\b\u000c\n\r\t"[index]
        }

        private fun <T> word(word: String, value: T): T {
            if (!text.startsWith(word, at)) fail()
            at += word.length
            return value
        }

        private fun number(): Number {
            val start = at
            while (at < text.length && text[at] in "+-.0123456789eE") at++
            val digits = text.substring(start, at)
            if (digits.isEmpty() || digits[0] == '+' || digits[0] == '.') fail()
            return digits.toLongOrNull() ?: digits.toDoubleOrNull() ?: fail()
        }

        /** The next character after white space; null at the end. */
        private fun peek(): Char? {
            while (at < text.length && text[at] in " \t\r\n") at++
            return text.getOrNull(at)
        }

        private fun take(char: Char) {
            if (peek() != char) fail()
            at++
        }

        private fun fail(): Nothing = throw Malformed("no JSON at character $at")
    }
}
