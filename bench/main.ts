/** `npm run bench -- <what> [options]`: each measurement prints a table; those with servers write bench/results/<what>.json. */
const [what, ...args] = process.argv.slice(2);

switch (what) {
  case 'redirect': {
    const { benchRedirect } = await import('./load/redirect.ts');
    await benchRedirect(args);
    break;
  }
  case 'analytics': {
    const { benchAnalytics } = await import('./load/analytics.ts');
    await benchAnalytics(args);
    break;
  }
  case 'path': {
    const { benchPath } = await import('./load/path.ts');
    await benchPath(args);
    break;
  }
  case 'events': {
    const { benchEvents } = await import('./load/events.ts');
    await benchEvents(args);
    break;
  }
  case 'match': {
    const { benchMatch } = await import('./load/match.ts');
    await benchMatch(args);
    break;
  }
  case 'matching': {
    const { benchMatching } = await import('./load/matching.ts');
    benchMatching(args);
    break;
  }
  case 'lists': {
    const { benchLists } = await import('./load/lists.ts');
    await benchLists(args);
    break;
  }
  case 'scaling': {
    const { printScaling } = await import('./scaling-page.ts');
    printScaling(args);
    break;
  }
  default:
    console.error('npm run bench -- redirect [--links 1,10000,1000000] [--seconds 3] [--rounds 3]');
    console.error('npm run bench -- analytics [--clicks 1000000,10000000,100000000] [--rounds 200] [--keep folder]');
    console.error('npm run bench -- path [--rates 5000,10000,20000] [--seconds 8] [--rounds 3]');
    console.error('npm run bench -- events [--seconds 2] [--rounds 4]');
    console.error('npm run bench -- match [--seconds 5] [--clicks 1000000]');
    console.error('npm run bench -- matching [--installs 100000] [--seed 1] [--tap off,ios,mobile] [--strangers 50]');
    console.error('npm run bench -- lists [--links 100000] [--requests 300]');
    console.error('npm run bench -- scaling [--rate 10000,100000,1000000]   (calculated, runs nothing)');
    process.exitCode = 1;
}
