/**
 * The snippets that the dashboard shows: the lines between `// snippet` and `// end` of the examples, and the first
 * code block of the native SDKs' READMEs.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';

const inExample = /^\/\/ snippet\n([\s\S]*?)\s*\/\/ end$/m;
const onPage = /^```(?:swift|kotlin)\n([\s\S]*?)\n```$/m;
const sources = [
  ['Swift', 'sdk/swift/README.md', onPage],
  ['Kotlin', 'sdk/kotlin/README.md', onPage],
  ['React Native', 'sdk/examples/react-native.mjs', inExample],
  ['Web', 'sdk/examples/web-page.mjs', inExample],
  ['Node', 'sdk/examples/node-server.mjs', inExample],
] as const;

export function sdkSnippets(): string {
  const entries = sources.map(([platform, file, place]) => {
    const [, snippet] = place.exec(readFileSync(join(packageRoot(), file), 'utf8')) ?? [];
    if (snippet === undefined) throw new Error(`${file} has no snippet`);
    const missing = ['https://api.example.com', 'lk_your_key'].filter((text) => !snippet.includes(text));
    if (missing.length > 0) throw new Error(`the snippet of ${file} lacks ${missing.join(' and ')}`);
    return `  ${/ /.test(platform) ? `'${platform}'` : platform}: ${template(snippet)},\n`;
  });
  return `/** Written by \`npm run generate\` from sdk. */\nexport const sdkSnippets = {\n${entries.join('')}};\n`;
}

function template(text: string): string {
  return `\`${text.replaceAll(/[\\`]|\$\{/g, String.raw`\$&`)}\``;
}
