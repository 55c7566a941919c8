// Cells of a matrix as pixels: one pixel a cell, then stretched, so that a large matrix costs little.
import type { Values } from "../api/arrays";
import { shade, type Hue } from "../look/colours";
import type { Light } from "../state/preferences.svelte";

export interface Cells {
  values: Values;
  rows: number;
  columns: number;
  hue: Hue;
  /** The size that gets the full colour. */
  top: number;
}

export function drawCells(canvas: HTMLCanvasElement, cells: Cells, width: number, height: number, light: Light): void {
  const sharpness = Math.min(window.devicePixelRatio || 1, 3);
  canvas.width = Math.max(1, Math.round(width * sharpness));
  canvas.height = Math.max(1, Math.round(height * sharpness));
  const context = canvas.getContext("2d");
  if (!context || !cells.rows || !cells.columns) return;
  const fitting = squeezed(cells, canvas.width);
  const small = new OffscreenCanvas(fitting.columns, fitting.rows);
  const pixels = small.getContext("2d");
  if (!pixels) return;
  const image = pixels.createImageData(fitting.columns, fitting.rows);
  fill(image.data, fitting, light);
  pixels.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = canvas.height < cells.rows;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** More columns than pixels: each pixel has the mean of the cells it covers. */
function squeezed(cells: Cells, most: number): Cells {
  const { values, rows, columns } = cells;
  if (columns <= most) return cells;
  const out = new Float32Array(rows * most);
  for (let row = 0; row < rows; row++)
    for (let pixel = 0; pixel < most; pixel++) {
      const from = Math.floor((pixel * columns) / most);
      const to = Math.max(from + 1, Math.floor(((pixel + 1) * columns) / most));
      let sum = 0;
      for (let column = from; column < to; column++) sum += values[row * columns + column];
      out[row * most + pixel] = sum / (to - from);
    }
  return { ...cells, values: out, columns: most };
}

function fill(pixels: Uint8ClampedArray, { values, hue, top }: Cells, light: Light): void {
  const steps = 255;
  const above = Array.from({ length: steps + 1 }, (_, i) => shade(light, hue, i / steps));
  const below = Array.from({ length: steps + 1 }, (_, i) => shade(light, hue, -i / steps));
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    // What may not be seen has no colour at all.
    if (!Number.isFinite(value)) continue;
    const size = Math.min(steps, Math.round((Math.abs(value) / (top || 1)) * steps));
    const [r, g, b] = value < 0 ? below[size] : above[size];
    pixels[4 * i] = r;
    pixels[4 * i + 1] = g;
    pixels[4 * i + 2] = b;
    pixels[4 * i + 3] = 255;
  }
}
