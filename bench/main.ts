/** `npm run bench -- <what> [options]`: each measurement prints a table and leaves its figures in bench/results/. */
const [what, ...args] = process.argv.slice(2);

switch (what) {
  case 'redirect': {
    const { benchRedirect } = await import('./load/redirect.ts');
    await benchRedirect(args);
    break;
  }
  default:
    console.error('npm run bench -- redirect [--links 1,10000,1000000] [--seconds 3] [--rounds 3]');
    process.exitCode = 1;
}
