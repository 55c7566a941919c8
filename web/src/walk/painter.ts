// Drawing primitives of the walk, in the coordinates of the figure.
import type { NumberArray } from "../api/arrays";
import { css, paint, shade, type Hue } from "../theme/colours";
import type { Theme } from "../state/preferences.svelte";
import type { View } from "./camera";
import type { Rect } from "./geometry";

/** The matrix as an image, one pixel per number. Full colour is twice the root mean square. */
const sheets = new WeakMap<NumberArray, Map<string, OffscreenCanvas>>();

function sheet(array: NumberArray, hue: Hue, theme: Theme): OffscreenCanvas {
  const known = sheets.get(array) ?? new Map<string, OffscreenCanvas>();
  sheets.set(array, known);
  const key = `${hue} ${theme}`;
  const found = known.get(key);
  if (found) return found;
  const columns = array.shape.at(-1) ?? 1;
  const canvas = new OffscreenCanvas(columns, Math.max(1, array.values.length / columns));
  const context = canvas.getContext("2d");
  if (context) {
    const image = context.createImageData(canvas.width, canvas.height);
    let squares = 0;
    for (const value of array.values) squares += value * value;
    const top = 2 * Math.sqrt(squares / Math.max(array.values.length, 1)) || 1;
    array.values.forEach((value, index) => image.data.set([...shade(theme, hue, value / top), 255], index * 4));
    context.putImageData(image, 0, 0);
  }
  known.set(key, canvas);
  return canvas;
}

export const ease = (t: number): number => (t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);
export const mix = (a: number, b: number, t: number): number => a + (b - a) * t;
/** The part [from, to] of a stage, as its own progress. */
export const within = (t: number, from: number, to: number): number => Math.max(0, Math.min(1, (t - from) / (to - from)));

export interface Tones {
  text: string;
  soft: string;
  line: string;
  card: string;
  wash: string;
}

export class Painter {
  constructor(
    readonly context: CanvasRenderingContext2D,
    readonly theme: Theme,
    readonly tones: Tones,
    private readonly sans: string,
    /** Pixels of the screen per unit of the figure. */
    readonly scale: number,
  ) {}

  begin(view: View, width: number, height: number, ratio: number): void {
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width * ratio, height * ratio);
    const scale = view.scale * ratio;
    context.setTransform(scale, 0, 0, scale, (width / 2 - view.x * view.scale) * ratio, (height / 2 - view.y * view.scale) * ratio);
  }

  colour(hue: Hue, opacity = 1): string {
    return css(paint(this.theme, hue), opacity);
  }

  box(rect: Rect, fill: string, stroke: string = this.tones.line, radius = 6): void {
    const { context } = this;
    context.beginPath();
    context.roundRect(rect.x, rect.y, rect.width, rect.height, radius);
    context.fillStyle = fill;
    context.fill();
    context.strokeStyle = stroke;
    context.lineWidth = 1;
    context.stroke();
  }

  /** One vector, centred. */
  strip(array: NumberArray | null, row: number, x: number, y: number, width: number, height: number, hue: Hue = "ink", alpha = 1): void {
    if (!array || alpha <= 0.01) return;
    const image = sheet(array, hue, this.theme);
    if (row >= image.height) return;
    const { context } = this;
    context.globalAlpha = alpha;
    context.drawImage(image, 0, row, image.width, 1, x - width / 2, y - height / 2, width, height);
    context.strokeStyle = this.tones.line;
    context.lineWidth = 0.5;
    context.strokeRect(x - width / 2, y - height / 2, width, height);
    context.globalAlpha = 1;
  }

  line(points: [number, number][], stroke: string, width = 1, dash: number[] = []): void {
    const { context } = this;
    context.beginPath();
    points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.setLineDash(dash);
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.stroke();
    context.setLineDash([]);
  }

  curve(x1: number, y1: number, x2: number, y2: number, stroke: string, width: number): void {
    const { context } = this;
    const bend = (y2 - y1) / 2;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.stroke();
  }

  /** A point of the same curve. */
  along(x1: number, y1: number, x2: number, y2: number, t: number): [number, number] {
    const bend = (y2 - y1) / 2;
    const u = 1 - t;
    const blend = (a: number, b: number, c: number, d: number): number => u ** 3 * a + 3 * u * u * t * b + 3 * u * t * t * c + t ** 3 * d;
    return [blend(x1, x1, x2, x2), blend(y1, y1 + bend, y2 - bend, y2)];
  }

  /** Text that would be too small to read on the screen is left out. */
  text(text: string, x: number, y: number, size: number, options: { colour?: string; align?: CanvasTextAlign; bold?: boolean; alpha?: number; width?: number } = {}): void {
    if (size * this.scale < 6.5) return;
    const { context } = this;
    context.font = `${options.bold ? 650 : 400} ${size}px ${this.sans}`;
    context.textAlign = options.align ?? "center";
    context.textBaseline = "middle";
    context.fillStyle = options.colour ?? this.tones.text;
    context.globalAlpha = options.alpha ?? 1;
    context.fillText(text, x, y, options.width);
    context.globalAlpha = 1;
  }
}

/** A point along a path of straight lines. */
export function alongPath(points: [number, number][], t: number): [number, number] {
  const lengths = points.slice(1).map(([x, y], index) => Math.hypot(x - points[index][0], y - points[index][1]));
  let left = t * lengths.reduce((a, b) => a + b, 0);
  for (const [index, length] of lengths.entries()) {
    if (left <= length || index === lengths.length - 1) {
      const share = length ? Math.min(1, left / length) : 0;
      return [mix(points[index][0], points[index + 1][0], share), mix(points[index][1], points[index + 1][1], share)];
    }
    left -= length;
  }
  return points[points.length - 1];
}
