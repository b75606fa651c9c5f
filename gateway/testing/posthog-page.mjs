/** A web page with PostHog's browser SDK. The test calls `posthog`. */
import posthog from 'posthog-js';

globalThis.posthog = posthog;
