/** The snippets that the dashboard shows, from the SDK's examples: the lines between `// snippet` and `// end`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';

const examples = { 'React Native': 'react-native.mjs', Web: 'web-page.mjs', Node: 'node-server.mjs' };

export function sdkSnippets(): string {
  const entries = Object.entries(examples).map(([platform, file]) => {
    const text = readFileSync(join(packageRoot(), 'sdk/examples', file), 'utf8');
    const [, snippet] = /^\/\/ snippet\n([\s\S]*?)\s*\/\/ end$/m.exec(text) ?? [];
    if (snippet === undefined) throw new Error(`sdk/examples/${file} has no lines between // snippet and // end`);
    return `  ${/ /.test(platform) ? `'${platform}'` : platform}: ${template(snippet)},\n`;
  });
  return `/** Written by \`npm run generate\` from sdk/examples. */\nexport const sdkSnippets = {\n${entries.join('')}};\n`;
}

function template(text: string): string {
  return `\`${text.replaceAll(/[\\`]|\$\{/g, String.raw`\$&`)}\``;
}
