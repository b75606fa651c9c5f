/** A QR code with the user's design, as SVG text and as an image. */
import { create } from 'qrcode';

export const corrections = ['L', 'M', 'Q', 'H'] as const;
export type Correction = (typeof corrections)[number];

export interface QrDesign {
  readonly dark: string;
  readonly light: string;
  readonly correction: Correction;
  /** Modules of empty space around the code. */
  readonly margin: number;
  /** A PNG as a data URL, or empty. */
  readonly logo: string;
}

export const plainDesign: QrDesign = { dark: '#000000', light: '#ffffff', correction: 'M', margin: 4, logo: '' };

/** Side of the logo as a fraction of the code's: it must hide less than error correction can restore. */
const logoPart = 0.26;

/** Bytes that a code can hold (ISO/IEC 18004). */
const bytesMax: Readonly<Record<Correction, number>> = { L: 2_953, M: 2_331, Q: 1_663, H: 1_273 };

/** The design for a text that may be too long for it: with less error correction, and without a logo, which needs the most. */
export function fitting(text: string, design: QrDesign): QrDesign {
  const bytes = new TextEncoder().encode(text).length;
  const wanted = design.logo === '' ? design.correction : 'H';
  if (bytes <= bytesMax[wanted]) return design;
  const lower = corrections.slice(0, corrections.indexOf(wanted));
  return { ...design, logo: '', correction: lower.findLast((one) => bytes <= bytesMax[one]) ?? 'L' };
}

export interface QrShape {
  /** Modules per side, with the margin. */
  readonly side: number;
  /** Dark modules as rectangles of one row each. */
  readonly bars: readonly (readonly [x: number, y: number, width: number])[];
  /** The area reserved for the logo. */
  readonly hole: { readonly at: number; readonly side: number } | null;
}

export function shapeOf(text: string, design: QrDesign): QrShape {
  // A logo hides part of the code, which only the highest error correction always restores.
  const { modules } = create(text, { errorCorrectionLevel: design.logo === '' ? design.correction : 'H' });
  const { size } = modules;
  const { margin } = design;
  const holeSide = design.logo === '' ? 0 : oddAtMost(size * logoPart);
  const from = (size - holeSide) / 2;
  const isHole = (at: number) => at >= from && at < from + holeSide;
  const bars: [number, number, number][] = [];
  for (let row = 0; row < size; row++) {
    let start = -1;
    for (let column = 0; column <= size; column++) {
      const isDark =
        column < size && modules.get(row, column) === 1 && !(holeSide > 0 && isHole(row) && isHole(column));
      if (isDark && start === -1) start = column;
      if (!isDark && start !== -1) {
        bars.push([start + margin, row + margin, column - start]);
        start = -1;
      }
    }
  }
  const hole = holeSide === 0 ? null : { at: from + margin, side: holeSide };
  return { side: size + 2 * margin, bars, hole };
}

/** Codes have an odd number of modules per side, and the hole is centered. */
function oddAtMost(value: number): number {
  const whole = Math.floor(value);
  return whole % 2 === 1 ? whole : whole - 1;
}

export function pathOf({ bars }: QrShape): string {
  return bars.map(([x, y, width]) => `M${x} ${y}h${width}v1h-${width}z`).join('');
}

export function svgText(text: string, design: QrDesign): string {
  const shape = shapeOf(text, design);
  const { side, hole } = shape;
  const logo = hole
    ? `<image x="${hole.at + 0.5}" y="${hole.at + 0.5}" width="${hole.side - 1}" height="${hole.side - 1}" href="${design.logo}"/>`
    : '';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${side}" width="1024" height="1024" shape-rendering="crispEdges"><rect width="${side}" height="${side}" fill="${design.light}"/><path fill="${design.dark}" d="${pathOf(shape)}"/>${logo}</svg>`;
}

/** @param pixels the side of the image; modules have whole pixels, and the remainder widens the margin. */
export async function pngOf(text: string, design: QrDesign, pixels: number): Promise<Blob> {
  const { side, bars, hole } = shapeOf(text, design);
  const { canvas, pen } = canvasOf(pixels, design.light);
  const cell = Math.floor(pixels / side);
  const edge = Math.floor((pixels - cell * side) / 2);
  pen.fillStyle = design.dark;
  for (const [x, y, width] of bars) pen.fillRect(edge + x * cell, edge + y * cell, width * cell, cell);
  if (hole) {
    const image = await imageOf(design.logo);
    const at = edge + (hole.at + 0.5) * cell;
    pen.drawImage(image, at, at, (hole.side - 1) * cell, (hole.side - 1) * cell);
  }
  return blobOf(canvas, 'image/png');
}

const logoPixels = 512;

/**
 * Converts any image to a square PNG without distorting it: one format for every download, without the file's metadata.
 */
export async function logoFrom(file: Blob): Promise<string> {
  const image = await imageOf(await dataUrlOf(file));
  const { canvas, pen } = canvasOf(logoPixels, null);
  // An SVG without a size fills the square.
  const [width, height] = [image.naturalWidth || logoPixels, image.naturalHeight || logoPixels];
  const scale = logoPixels / Math.max(width, height);
  const [w, h] = [width * scale, height * scale];
  pen.drawImage(image, (logoPixels - w) / 2, (logoPixels - h) / 2, w, h);
  return canvas.toDataURL('image/png');
}

/** The logo on the background color, for formats without transparency. */
export async function opaqueLogo({ logo, light }: QrDesign): Promise<Uint8Array> {
  const { canvas, pen } = canvasOf(logoPixels, light);
  pen.drawImage(await imageOf(logo), 0, 0, logoPixels, logoPixels);
  return new Uint8Array(await (await blobOf(canvas, 'image/jpeg')).arrayBuffer());
}
export const opaqueLogoPixels = logoPixels;

function canvasOf(side: number, fill: string | null) {
  const canvas = document.createElement('canvas');
  canvas.width = side;
  canvas.height = side;
  const pen = canvas.getContext('2d');
  if (!pen) throw new Error('the browser gives no canvas');
  if (fill !== null) {
    pen.fillStyle = fill;
    pen.fillRect(0, 0, side, side);
  }
  return { canvas, pen };
}

async function imageOf(url: string): Promise<HTMLImageElement> {
  const image = new Image();
  image.src = url;
  await image.decode();
  return image;
}

function dataUrlOf(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error('the file cannot be read'));
    reader.readAsDataURL(file);
  });
}

function blobOf(canvas: HTMLCanvasElement, type: string): Promise<Blob> {
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('the browser made no picture'))), type, 0.95);
  });
}

/** The ratio of the brightness of two colors, 1 to 21, as WCAG defines it. */
export function contrastOf(one: string, other: string): number {
  const [low = 0, high = 0] = [brightnessOf(one), brightnessOf(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

export function brightnessOf(color: string): number {
  const [red = 0, green = 0, blue = 0] = rgbOf(color).map((part) =>
    part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Parts of `#rrggbb`, 0 to 1. */
export const rgbOf = (color: string) => [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16) / 255);
