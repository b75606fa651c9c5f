/**
 * How Node runs a process of ours, wherever it is started. V8 marks old objects in the process's own thread: our heaps are
 * small and what fills them dies young, and marking in other threads makes an event at the SDK edge up to 4 % dearer, and no
 * pause shorter.
 */
export const nodeOptions: readonly string[] = ['--enable-source-maps', '--no-concurrent-marking'];
