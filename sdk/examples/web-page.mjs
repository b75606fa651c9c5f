// A shop's page: sdk/examples/web-page.html loads it.
// snippet
import { createSignpost } from '@signpost/sdk/web';

const signpost = createSignpost({ host: 'https://api.example.com', apiKey: 'lk_your_key' });

signpost.onLink((link) => {
  document.title = `Welcome to ${link.path}`;
});
await signpost.track('page_viewed', { properties: { page: location.pathname } });
// end

document.querySelector('#buy').addEventListener('click', async () => {
  await signpost.track('purchase', { revenue: { amount: '19.99', currency: 'EUR' } });
  const { queued } = await signpost.flush();
  document.querySelector('#state').textContent = queued === 0 ? 'Thank you' : 'Thank you (sent later)';
});

document.querySelector('#refuse').addEventListener('click', () => signpost.setConsent('none'));
