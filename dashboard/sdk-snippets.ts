/** Written by `npm run generate` from sdk/examples. */
export const sdkSnippets = {
  'React Native': `import AsyncStorage from '@react-native-async-storage/async-storage';
import { createSignpost } from '@signpost/sdk/react-native';
import { AppState, Linking, Platform } from 'react-native';

export const signpost = createSignpost({
  host: 'https://api.example.com',
  apiKey: 'lk_your_key',
  platform: Platform.OS,
  storage: AsyncStorage,
  linking: Linking,
  appState: AppState,
  device: { os_version: String(Platform.Version) },
});

signpost.onLink((link) => console.log(link.isDeferred ? 'installed for' : 'opened at', link.path));`,
  Web: `import { createSignpost } from '@signpost/sdk/web';

const signpost = createSignpost({ host: 'https://api.example.com', apiKey: 'lk_your_key' });

signpost.onLink((link) => {
  document.title = \`Welcome to \${link.path}\`;
});
await signpost.track('page_viewed', { properties: { page: location.pathname } });`,
  Node: `import { createSignpost } from '@signpost/sdk/node';

const signpost = createSignpost({
  host: 'https://api.example.com',
  apiKey: 'lk_your_key',
  queueFile: '.data/signpost-events',
});

async function purchased(order) {
  const revenue = { amount: order.total, currency: 'EUR' };
  // The same order counts once, however often this is called.
  await signpost.track('purchase', { userId: order.user, deviceId: order.device, eventId: order.id, revenue });
}`,
};
