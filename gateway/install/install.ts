/** POST /sdk/install: stores an install with its attribution; repeated requests get the first answer. */
import { installTime } from '#common/event-time.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { hasLongNumber, propertiesIn } from '#common/log/long-numbers.ts';
import { sdkRoute } from '#gateway/deps.ts';
import { InstallAnswerSchema, InstallBody } from './install-schema.ts';

const PROPERTIES_BYTES_MAX = 32_768;

const description = 'The install and its attribution, if any.';

export const trackInstall = sdkRoute({
  method: 'POST',
  path: '/sdk/install',
  operationId: 'trackInstall',
  caller: 'app',
  limit: 'general',
  tag: 'SDK',
  summary: 'Track an install',
  description:
    'Idempotent: a repeated install, even a concurrent one, gets the first answer with 200 and duplicate: true, ' +
    'and counts once. A click is attributed to at most one install.',
  body: InstallBody,
  bodyExample: {
    platform: 'android',
    device_id: 'device-7',
    install_referrer: 'utm_source=mail',
    app_version: '2.1.0',
  },
  answers: {
    200: {
      description: 'The install was already tracked; this is its first answer.',
      schema: InstallAnswerSchema,
    },
    201: { description, schema: InstallAnswerSchema },
  },
  async handle({ installation, storeClock }, { caller, body, rawBody, ip, header, receivedMs }) {
    const device = body.device_id || body.install_id;
    if (!device) return invalid('install_id', 'either install_id or device_id is required');
    const installed_at = installTime(body.installed_at, receivedMs, storeClock.now());
    if (typeof installed_at === 'string') return invalid('installed_at', installed_at);
    if (body.properties && Buffer.byteLength(JSON.stringify(body.properties)) > PROPERTIES_BYTES_MAX) {
      return invalid('properties', `must be at most ${PROPERTIES_BYTES_MAX} bytes of JSON`);
    }
    const asker = { app: caller.app, ip, device, user_agent: header('user-agent'), install_name: null };
    const text = body.properties ? (rawBody.text() ?? '') : '';
    const properties = hasLongNumber(text) ? propertiesIn(text, []) : null;
    const own = { installed_at, properties: properties ?? (body.properties ? JSON.stringify(body.properties) : '') };
    const installed = await installation.install(body, own, asker);
    if (installed instanceof Rejection) return installed;
    const { install_id, answer, is_reinstall, duplicate } = installed;
    const { created_at, ...attribution } = answer;
    const trigger = is_reinstall ? 'reinstall' : 'install';
    return { status: duplicate ? 200 : 201, body: { install_id, trigger, ...attribution, duplicate, created_at } };
  },
});
