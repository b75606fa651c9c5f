/** A web page with PostHog's browser SDK. */
import posthog from 'posthog-js';

const page = globalThis as unknown as { posthog: typeof posthog };
page.posthog = posthog;
