import { Type } from 'typebox';
import { tenantOf } from '#api/access.ts';
import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { nullable } from '#common/links/link-fields.ts';
import { appExample, findApp } from './app.ts';
import { associationFiles, associationSources, type CheckedFile, shownHeaders } from './association-checks.ts';
import { type AssociationProblem, associationProblems } from './association-problems.ts';

function choiceOf<T extends string>(values: readonly T[], description: string) {
  return Type.Unsafe<T>({ type: 'string', enum: [...values], description });
}

const checkedFile = Type.Object(
  {
    file: choiceOf(associationFiles, 'Apple’s file (universal links) or Google’s (app links).'),
    source: choiceOf(
      associationSources,
      'Where the file was requested: from the host itself, or from Apple’s CDN, which iPhones read.',
    ),
    url: nullable(Type.String({ description: 'null: Apple’s CDN is not checked, because APPLE_CDN_URL is empty.' })),
    status: nullable(
      Type.Integer({ description: 'HTTP status. null: nothing was requested, or there was no response.' }),
    ),
    content_type: nullable(Type.String()),
    bytes: nullable(Type.Integer({ description: 'Length of the body; null if it was not read to its end.' })),
    location: nullable(Type.String({ description: 'Where the answer redirects. It was not followed.' })),
    headers: Type.Object(Object.fromEntries(shownHeaders.map((name) => [name, Type.Optional(Type.String())])), {
      description: 'Headers of Apple’s CDN: the age of its copy, or why it has none.',
    }),
    outcome: choiceOf(
      ['good', 'faulty', 'not_checked'] as const,
      'good: phones accept the file, and it is identical to the one that this installation serves.',
    ),
    problems: Type.Array(
      choiceOf<AssociationProblem>(associationProblems, 'What is wrong, or why nothing was requested.'),
    ),
  },
  { title: 'CheckedFile' },
);

const good: CheckedFile = {
  file: 'apple-app-site-association',
  source: 'host',
  url: 'https://go.example.com/.well-known/apple-app-site-association',
  status: 200,
  content_type: 'application/json',
  bytes: 231,
  location: null,
  headers: {},
  outcome: 'good',
  problems: [],
};

export const checkAssociations = route({
  method: 'POST',
  path: '/apps/{app_id}/check-associations',
  operationId: 'checkAssociations',
  caller: 'user',
  scope: 'apps:read',
  isRead: true,
  limit: 'general',
  tag: 'Apps',
  summary: 'Check the association files of the app’s host',
  description:
    'Requests the files that let iOS and Android open links in the app, the way phones do: without following redirects, at most 128 KiB, within 5 seconds. A failed request is reported as a result, not as an error. At most 10 checks per minute for each organization.',
  params: Type.Object({ app_id: Type.String({ examples: [appExample.id] }) }),
  answers: {
    200: {
      description: 'The result for each file.',
      schema: Type.Object(
        {
          host: Type.String(),
          checked_at: Type.String({ format: 'date-time' }),
          files: Type.Array(checkedFile),
        },
        { title: 'AssociationCheck' },
      ),
      example: {
        host: appExample.host,
        checked_at: appExample.updated_at,
        files: [
          good,
          {
            ...good,
            file: 'assetlinks.json',
            url: 'https://go.example.com/.well-known/assetlinks.json',
            ...{ status: 301, content_type: 'text/html', bytes: 0 },
            location: 'https://www.example.com/.well-known/assetlinks.json',
            ...{ outcome: 'faulty', problems: ['redirected'] },
          },
        ],
      },
    },
  },
  async handle({ tenancy, clock, associationChecks }, { caller, params }) {
    const app = await tenancy.within(tenantOf(caller), (tenant) => findApp(tenant, params.app_id));
    if (app instanceof Rejection) return app;
    const files = await associationChecks.check(app);
    if (files instanceof Rejection) return files;
    return { status: 200, body: { host: app.host, checked_at: new Date(clock()).toISOString(), files } };
  },
});
