import fc from 'fast-check';

const surrogates = { first: 0xd800, count: 0x800 };

/** Unit of a `fc.string`: any code point, like `binary`, for which fast-check first makes tables for over a second. */
export const anyCharacter = fc.integer({ min: 0, max: 0x10ffff - surrogates.count }).map(
  (n) => String.fromCodePoint(n < surrogates.first ? n : n + surrogates.count),
  (text) => {
    const code = typeof text === 'string' ? text.codePointAt(0) : undefined;
    if (code === undefined || text !== String.fromCodePoint(code)) throw new Error('not one character');
    return code < surrogates.first ? code : code - surrogates.count;
  },
);
