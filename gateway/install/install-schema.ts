/** Schemas of POST /sdk/install: what an app sends after it was installed, and the answer. */
import { type Static, Type } from 'typebox';
import { installTextMax } from '#common/log/install-record.ts';
import { deviceFields, LinkBriefSchema, matchTypes } from '#gateway/match/match-schema.ts';

function text(maxLength: number, description: string) {
  return Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength, description }));
}

export const InstallBody = Type.Object(
  {
    ...deviceFields,
    match_id: text(64, 'The match_id from POST /sdk/match. If absent, the install is matched now.'),
    installed_at: Type.Optional(
      Type.Unsafe<string | number | null>({
        type: ['string', 'number', 'null'],
        description: 'ISO 8601 or epoch milliseconds, from 2020 on and at most one hour in the future. Default: now.',
      }),
    ),
    user_id: text(installTextMax.user_id, "The app's identifier of the user."),
    properties: Type.Optional(
      Type.Unsafe<Record<string, unknown> | null>({
        type: ['object', 'null'],
        additionalProperties: true,
        description: 'At most 32 KiB of JSON.',
      }),
    ),
  },
  { title: 'NewInstall' },
);
export type InstallFields = Static<typeof InstallBody>;

const nullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] });

export const InstallAnswerSchema = Type.Object(
  {
    install_id: Type.String(),
    trigger: Type.Unsafe<string>({
      type: 'string',
      enum: ['install', 'reinstall'],
      description: '`reinstall` if the device had another install of the app before, under another `install_id`.',
    }),
    attributed: Type.Boolean(),
    match_type: Type.Unsafe<string>({ type: 'string', enum: [...matchTypes] }),
    match_guaranteed: Type.Boolean(),
    confidence: Type.Number(),
    click_id: nullableText,
    link: LinkBriefSchema,
    campaign: nullableText,
    duplicate: Type.Boolean(),
    created_at: Type.String(),
  },
  { title: 'Install' },
);
