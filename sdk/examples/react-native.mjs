// An app's entry file.
// snippet
import AsyncStorage from '@react-native-async-storage/async-storage';
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

signpost.onLink((link) => console.log(link.isDeferred ? 'installed for' : 'opened at', link.path));
// end
