/** A link as POST /sdk/links returns it: what this endpoint accepts, and where the link is. */
import { Type } from 'typebox';
import { type LinkRow, linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import { linkFieldNames } from '#common/links/link-fields.ts';
import type { ShortUrl } from '#common/links/short-url.ts';

const fields = ['id', 'app_id', 'url', ...linkFieldNames, 'created_at'] as const;

export const sdkLinkSchema = Type.Pick(linkSchema, [...fields], { title: 'SdkLink' });

function picked(link: object): object {
  return Object.fromEntries(Object.entries(link).filter(([name]) => fields.some((field) => field === name)));
}

export function sdkLinkAnswer(row: LinkRow, shortUrl: ShortUrl): object {
  return picked(linkAnswer(row, shortUrl));
}

export const sdkLinkExample = picked({ ...linkExample, title: null, campaign: 'invites', external_id: 'invite-7' });
