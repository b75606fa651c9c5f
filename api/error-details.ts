/** The details of an error, of a whole request or of one item of it. */
import { errorReasons } from '#common/http/doc-pages.ts';

const fieldName = {
  type: 'string',
  description: 'Path of the field, such as `ios.bundle_id` or `events[3].name`; `body` for the whole body.',
};

export const errorDetailsSchema = {
  title: 'ErrorDetails',
  type: 'object',
  properties: {
    field: fieldName,
    reason: {
      type: 'string',
      description: `Machine-readable reason, where the code alone is not specific enough: ${errorReasons.map((name) => `\`${name}\``).join(', ')}.`,
    },
    doc_url: {
      type: 'string',
      format: 'uri-reference',
      description: 'Documentation of the error, relative to the URL of the request.',
    },
    link_id: { type: 'string', description: 'The link that already has the short code or external id.' },
    errors: {
      type: 'array',
      maxItems: 100,
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: { field: fieldName, message: { type: 'string' } },
      },
    },
  },
};
