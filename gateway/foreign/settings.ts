/**
 * The settings that other services' clients request before they send anything. They turn off features that Signpost
 * does not have, so that a client neither waits for them nor sends data for them. The same for every app.
 */
import { Type } from 'typebox';
import { parseObject } from '#common/http/json.ts';
import { sdkRoute } from '#gateway/deps.ts';
import { unpackPosthogBody } from './posthog-body.ts';
import { anyQuery, BODY_BYTES_MAX } from './track.ts';

/** For browsers, which request the settings on each page. */
const CACHE_SECONDS = 3_600;
const cached = { 'Cache-Control': `public, max-age=${CACHE_SECONDS}` };
const settingsSchema = Type.Object({}, { additionalProperties: true });

/** `metrics`: without this, the browser SDK would report its own performance. */
const segmentSettings = {
  plan: { track: { __default: { enabled: true, integrations: {} } } },
  edgeFunction: {},
  middlewareSettings: { routingRules: [] },
  enabledMiddleware: {},
  metrics: { sampleRate: 0 },
  legacyVideoPluginsEnabled: false,
  remotePlugins: [],
};

export const getSegmentSettings = sdkRoute({
  method: 'GET',
  path: '/sdk/segment/v1/projects/{write_key}/settings',
  operationId: 'getSegmentSettings',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'general',
  tag: 'SDK',
  summary: "Get the settings for Segment's clients",
  description:
    "Segment's browser and mobile SDKs load these settings first. They name one destination, Signpost, and no plugins.",
  params: Type.Object({ write_key: Type.String({ description: 'The API key of the app.' }) }),
  answers: {
    200: {
      description: 'The settings.',
      schema: settingsSchema,
      example: { integrations: { 'Segment.io': { apiKey: 'lk_…' } }, ...segmentSettings },
    },
  },
  handle: (_deps, { params }) => ({
    status: 200,
    headers: cached,
    body: { integrations: { 'Segment.io': { apiKey: params.write_key } }, ...segmentSettings },
  }),
});

/** Parameters of some versions of the browser SDK. */
const ignored = Object.fromEntries(
  ['ip', 'ver', '_', 'retry_count'].map((name) => [name, Type.Optional(Type.String({ description: 'Ignored.' }))]),
);

const posthogConfig = {
  supportedCompression: ['gzip', 'gzip-js'],
  hasFeatureFlags: false,
  autocapture_opt_out: true,
  autocaptureExceptions: false,
  captureDeadClicks: false,
  capturePerformance: false,
  elementsChainAsString: true,
  heatmaps: false,
  isAuthenticated: false,
  sessionRecording: false,
  siteApps: [],
  surveys: false,
  toolbarParams: {},
};

export const getPosthogConfig = sdkRoute({
  method: 'GET',
  path: '/sdk/posthog/array/{project_key}/config',
  operationId: 'getPostHogConfig',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'general',
  tag: 'SDK',
  summary: "Get the configuration for PostHog's clients",
  description:
    "PostHog's browser and mobile SDKs load this configuration first. It turns off everything except captures.",
  params: Type.Object({ project_key: Type.String({ description: 'The API key of the app.' }) }),
  query: Type.Object(ignored, { additionalProperties: false }),
  answers: { 200: { description: 'The configuration.', schema: settingsSchema, example: posthogConfig } },
  handle: () => ({ status: 200, headers: cached, body: posthogConfig }),
});

const posthogFlags = {
  ...posthogConfig,
  flags: {},
  featureFlags: {},
  featureFlagPayloads: {},
  errorsWhileComputingFlags: false,
};

export const getPosthogFlags = sdkRoute({
  method: 'POST',
  path: '/sdk/posthog/flags/',
  alsoAt: ['/sdk/posthog/flags', '/sdk/posthog/decide/', '/sdk/posthog/decide'],
  operationId: 'getPostHogFlags',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'general',
  tag: 'SDK',
  summary: "Get the feature flags for PostHog's clients",
  description:
    'Signpost has no feature flags: the answer is always empty. Also at `/sdk/posthog/flags` and `/sdk/posthog/decide/`.',
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  unpackBody: unpackPosthogBody,
  query: anyQuery,
  body: Type.Object({ api_key: Type.Optional(Type.String()) }, { additionalProperties: true }),
  bodyExample: { api_key: 'lk_…', distinct_id: 'user-7' },
  answers: { 200: { description: 'No flags.', schema: settingsSchema, example: posthogFlags } },
  handle: (_deps, { rawBody }) => {
    const parsed = parseObject(rawBody);
    return 'rejection' in parsed ? parsed.rejection : { status: 200, body: posthogFlags };
  },
});
