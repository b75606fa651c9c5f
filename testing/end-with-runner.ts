/** Ends this process if the test runner is killed: what it started ends with it, and the next run need not wait for it. */
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
