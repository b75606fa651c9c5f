/** Written by `npm run generate` from sdk. */
export const sdkSnippets = {
  Swift: `@main
struct ShopApp: App {
    let signpost = createSignpost(Options(host: "https://api.example.com", apiKey: "lk_your_key"))

    var body: some Scene {
        WindowGroup {
            ContentView()
                .opensLinks(with: signpost)
                .task { for await link in signpost.links { show(link.path) } }
        }
    }
}

await signpost.track("purchase", revenue: Revenue("19.99", "EUR"))`,
  Kotlin: `class App : Application() {
    override fun onCreate() {
        super.onCreate()
        signpost = createSignpost(this, Options(host = "https://api.example.com", apiKey = "lk_your_key"))
        signpost.onLink { link -> show(link.path) }
    }
}

class MainActivity : Activity() {
    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        signpost.handle(intent, state)
    }

    override fun onNewIntent(intent: Intent) = signpost.handle(intent)
}

signpost.track("purchase", revenue = Revenue("19.99", "EUR"))`,
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
