/**
 * How Node runs a process of ours, wherever it is started. V8 collects garbage in the process's own thread: what fills our
 * heaps dies young, and threads that help cost more than they spare (a fifth of all that an event costs the SDK edge).
 */
export const nodeOptions: readonly string[] = ['--enable-source-maps', '--single-threaded-gc'];
