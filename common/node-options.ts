/**
 * How Node runs a process of ours, wherever it is started. V8 marks old objects in the process's own thread: our heaps are
 * small and what fills them dies young, and marking in other threads cost a fifth of all that an event costs the SDK edge.
 */
export const nodeOptions: readonly string[] = ['--enable-source-maps', '--no-concurrent-marking'];
