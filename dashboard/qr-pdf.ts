/** A QR code as a one-page vector PDF, so that it can be printed at any size. */
import { opaqueLogo, opaqueLogoPixels, type QrDesign, rgbOf, shapeOf } from './qr-code.ts';

/** 8 cm, in points. */
const pageSide = 226.77;

export async function pdfOf(text: string, design: QrDesign): Promise<Blob> {
  const { side, bars, hole } = shapeOf(text, design);
  const unit = pageSide / side;
  // The origin of a PDF is at the bottom.
  const box = (x: number, y: number, w: number, h: number) =>
    [x * unit, pageSide - (y + h) * unit, w * unit, h * unit].map(short).join(' ');
  const drawing = [
    `${colorOf(design.light)} rg 0 0 ${pageSide} ${pageSide} re f`,
    `${colorOf(design.dark)} rg`,
    ...bars.map(([x, y, width]) => `${box(x, y, width, 1)} re`),
    'f',
  ];
  if (hole) {
    const [x, y, w, h] = box(hole.at + 0.5, hole.at + 0.5, hole.side - 1, hole.side - 1).split(' ');
    drawing.push(`q ${w} 0 0 ${h} ${x} ${y} cm /Logo Do Q`);
  }
  const stream = drawing.join('\n');
  const parts: Part[] = [
    ['<< /Type /Catalog /Pages 2 0 R >>'],
    ['<< /Type /Pages /Kids [3 0 R] /Count 1 >>'],
    [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${pageSide} ${pageSide}] /Contents 4 0 R /Resources << ${hole ? '/XObject << /Logo 5 0 R >>' : ''} >> >>`,
    ],
    [`<< /Length ${stream.length} >>`, latin(stream)],
  ];
  if (hole) {
    const jpeg = await opaqueLogo(design);
    const [w, h] = [opaqueLogoPixels, opaqueLogoPixels];
    parts.push([
      `<< /Type /XObject /Subtype /Image /Width ${w} /Height ${h} /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode /Length ${jpeg.length} >>`,
      jpeg,
    ]);
  }
  return new Blob([bytesOf(parts)], { type: 'application/pdf' });
}

/** An object of the file: its dictionary, and its stream if it has one. */
type Part = readonly [dictionary: string, stream?: Uint8Array];

function bytesOf(parts: readonly Part[]): Uint8Array<ArrayBuffer> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  const add = (piece: Uint8Array) => {
    pieces.push(piece);
    length += piece.length;
  };
  add(latin('%PDF-1.4\n'));
  const places = parts.map(([dictionary, stream], at) => {
    const place = length;
    add(latin(`${at + 1} 0 obj\n${dictionary}\n`));
    if (stream) for (const piece of [latin('stream\n'), stream, latin('\nendstream\n')]) add(piece);
    add(latin('endobj\n'));
    return place;
  });
  const tableAt = length;
  const rows = places.map((place) => `${String(place).padStart(10, '0')} 00000 n \n`);
  const count = parts.length + 1;
  add(latin(`xref\n0 ${count}\n0000000000 65535 f \n${rows.join('')}`));
  add(latin(`trailer\n<< /Size ${count} /Root 1 0 R >>\nstartxref\n${tableAt}\n%%EOF\n`));
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

const latin = (text: string) => new TextEncoder().encode(text);
const short = (value: number) => String(Math.round(value * 1000) / 1000);
const colorOf = (color: string) => rgbOf(color).map(short).join(' ');
