// Draws a matrix with one pixel per cell, then scales it up: cheap for large matrices.
import type { Values } from "../api/arrays";
import { shade, type Hue } from "../theme/colours";
import type { Theme } from "../state/preferences.svelte";

export interface Cells {
  values: Values;
  rows: number;
  columns: number;
  hue: Hue;
  /** The absolute value that gets the full colour. */
  top: number;
}

export function drawHeatmap(canvas: HTMLCanvasElement, cells: Cells, width: number, height: number, theme: Theme): void {
  const pixelRatio = Math.min(window.devicePixelRatio || 1, 3);
  canvas.width = Math.max(1, Math.round(width * pixelRatio));
  canvas.height = Math.max(1, Math.round(height * pixelRatio));
  const context = canvas.getContext("2d");
  if (!context || !cells.rows || !cells.columns) return;
  const fitting = downsample(cells, canvas.width);
  const small = new OffscreenCanvas(fitting.columns, fitting.rows);
  const pixels = small.getContext("2d");
  if (!pixels) return;
  const image = pixels.createImageData(fitting.columns, fitting.rows);
  fill(image.data, fitting, theme);
  pixels.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = canvas.height < cells.rows;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** If there are more columns than pixels, average the cells of each pixel. */
function downsample(cells: Cells, maxColumns: number): Cells {
  const { values, rows, columns } = cells;
  if (columns <= maxColumns) return cells;
  const out = new Float32Array(rows * maxColumns);
  for (let row = 0; row < rows; row++)
    for (let pixel = 0; pixel < maxColumns; pixel++) {
      const from = Math.floor((pixel * columns) / maxColumns);
      const to = Math.max(from + 1, Math.floor(((pixel + 1) * columns) / maxColumns));
      let sum = 0;
      for (let column = from; column < to; column++) sum += values[row * columns + column];
      out[row * maxColumns + pixel] = sum / (to - from);
    }
  return { ...cells, values: out, columns: maxColumns };
}

function fill(pixels: Uint8ClampedArray, { values, hue, top }: Cells, theme: Theme): void {
  const steps = 255;
  const above = Array.from({ length: steps + 1 }, (_, i) => shade(theme, hue, i / steps));
  const below = Array.from({ length: steps + 1 }, (_, i) => shade(theme, hue, -i / steps));
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    // Masked cells (NaN or −∞) stay transparent.
    if (!Number.isFinite(value)) continue;
    const size = Math.min(steps, Math.round((Math.abs(value) / (top || 1)) * steps));
    const [r, g, b] = value < 0 ? below[size] : above[size];
    pixels[4 * i] = r;
    pixels[4 * i + 1] = g;
    pixels[4 * i + 2] = b;
    pixels[4 * i + 3] = 255;
  }
}
