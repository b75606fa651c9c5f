const m = await import('/work/h/mach/deploy/docs-run/outside.ts');
console.log(m.emptyDebian());
