import QRCode from 'qrcode';
import { Type } from 'typebox';
import { route } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { linkParams, readLink } from './read.ts';

const SIZE_DEFAULT = 300;
const SIZE_MAX = 1024;
/** Of a code, by its error correction (ISO/IEC 18004). */
const BYTES_MAX = { L: 2_953, M: 2_331 } as const;

export const qr = route({
  method: 'GET',
  path: '/links/{id}/qr',
  operationId: 'getLinkQrCode',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'Links',
  summary: 'Get the QR code of a link',
  params: linkParams,
  query: Type.Object(
    {
      format: Type.Optional(
        Type.Unsafe<'svg' | 'png'>({ type: 'string', enum: ['svg', 'png'], description: 'Image format; default svg.' }),
      ),
      size: Type.Optional(
        Type.Integer({ minimum: 64, maximum: SIZE_MAX, description: `Width in pixels; default ${SIZE_DEFAULT}.` }),
      ),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'The QR code, as image/svg+xml or image/png.',
      contentType: 'image/svg+xml',
      otherTypes: ['image/png'],
    },
  },
  handle: async ({ tenancy, shortUrl }, { caller, params, query }) => {
    const link = await readLink(tenancy, caller, params.id);
    if (link instanceof Rejection) return link;
    const url = shortUrl(link.host, link.short_code);
    const bytes = Buffer.byteLength(url);
    if (bytes > BYTES_MAX.L) return invalid('id', `has a URL of ${bytes} bytes; a QR code holds ${BYTES_MAX.L}`);
    const errorCorrectionLevel = bytes > BYTES_MAX.M ? 'L' : 'M';
    const options = { width: query.size ?? SIZE_DEFAULT, margin: 2, errorCorrectionLevel } as const;
    if (query.format === 'png') {
      return { status: 200, contentType: 'image/png', bytes: await QRCode.toBuffer(url, options) };
    }
    return {
      status: 200,
      contentType: 'image/svg+xml',
      // It may be opened as a page of its own.
      headers: { 'Content-Security-Policy': "default-src 'none'; sandbox" },
      bytes: await QRCode.toString(url, { ...options, type: 'svg' }),
    };
  },
});
