// Where everything is in the figure: the paper's Figure 1, the encoder on the left, the decoder on the right, from bottom
// to top. Each token has a lane; its vectors move along it.

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface AttentionBox {
  box: Rect;
  /** Where the keys and values are, and where the queries and the mixed values are. */
  keysY: number;
  queriesY: number;
  keyLanes: number[];
}

export interface Column {
  rect: Rect;
  lanes: number[];
  /** Width and height of a vector. */
  strip: { width: number; height: number };
  tokensY: number;
  embedding: Rect;
  positionY: number;
  layer: Rect;
  attention: AttentionBox;
  cross: AttentionBox | null;
  /** After attention, after cross-attention, after the feed-forward network. */
  norms: Rect[];
  ffn: Rect;
  collapsed: { layer: number; rect: Rect }[];
  /** Where the vectors are after the last layer. */
  topY: number;
}

export interface Figure {
  width: number;
  height: number;
  encoder: Column;
  decoder: Column;
  linear: Rect;
  softmax: Rect;
  busX: number;
  busY: number;
  outputY: number;
}

/** The figure is as high as this, and at least as wide as that. */
export const HEIGHT = 620;
const MIN_WIDTH = 1040;
const MAX_WIDTH = 1420;
const MAX_PITCH = 76;
const BOTTOM = 534;
const COLLAPSED = 17;
const GAP = 7;
const NORM = 17;

interface Size {
  tokens: number;
  layers: number;
  open: number;
}

/** `aspect`: width by height of the canvas. */
export function layoutFigure(src: Size, tgt: Size, aspect: number): Figure {
  const total = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, HEIGHT * aspect));
  const half = (total - 210) / 2;
  const encoder = layoutColumn({ x: 70, y: 60, width: half, height: HEIGHT - 60 }, src, 70, null);
  const decoder = layoutColumn({ x: 180 + half, y: 20, width: half, height: HEIGHT - 20 }, tgt, 158, src.tokens);
  const { x, width } = decoder.rect;
  return {
    width: total,
    height: HEIGHT,
    encoder,
    decoder,
    linear: { x, y: 132, width, height: 17 },
    softmax: { x, y: 36, width, height: 90 },
    busX: 110 + half,
    busY: encoder.topY - 16,
    outputY: 20,
  };
}

/** `top`: where the layers must end. `memory`: the number of source tokens, if there is cross-attention. */
function layoutColumn(rect: Rect, size: Size, top: number, memory: number | null): Column {
  const pitch = Math.min(MAX_PITCH, (rect.width - 24) / Math.max(size.tokens, 1));
  const left = rect.x + rect.width / 2 - (pitch * size.tokens) / 2;
  const lanes = spread(left, pitch, size.tokens);
  const across = (y: number, height: number, inset = 0): Rect => ({ x: rect.x + inset, y, width: rect.width - 2 * inset, height });
  const closed = (size.layers - 1) * (COLLAPSED + GAP);
  const open = BOTTOM - 22 - top - closed;
  const attentions = memory === null ? 1 : 2;
  const inside = open - 12 - (attentions + 1) * (NORM + GAP) - (attentions + 1) * GAP;
  const attentionHeight = memory === null ? inside * 0.74 : inside * 0.43;
  const ffnHeight = inside - attentions * attentionHeight;

  let y = BOTTOM - 22;
  const collapsed: Column["collapsed"] = [];
  const norms: Rect[] = [];
  let layer = rect;
  let attention: AttentionBox | null = null;
  let cross: AttentionBox | null = null;
  let ffn = rect;
  const take = (height: number, inset: number): Rect => {
    y -= height;
    const found = across(y, height, inset);
    y -= GAP;
    return found;
  };
  for (let number = 0; number < size.layers; number++) {
    if (number !== size.open) {
      collapsed.push({ layer: number, rect: take(COLLAPSED, 0) });
      continue;
    }
    layer = across(y - open, open);
    y -= 6;
    attention = attentionBox(take(attentionHeight, 10), lanes);
    norms.push(take(NORM, 10));
    if (memory !== null) {
      const box = take(attentionHeight, 10);
      const keyPitch = Math.min(MAX_PITCH, (box.width - 40) / memory);
      cross = attentionBox(box, spread(box.x + box.width / 2 - (keyPitch * memory) / 2, keyPitch, memory));
      norms.push(take(NORM, 10));
    }
    ffn = take(ffnHeight, 10);
    norms.push(take(NORM, 10));
    y = layer.y - GAP;
  }
  if (!attention) throw new Error(`the figure has no layer ${size.open}`);
  return {
    rect,
    lanes,
    strip: { width: Math.max(4, pitch * 0.78), height: Math.min(11, Math.max(5, pitch * 0.3)) },
    tokensY: HEIGHT - 16,
    embedding: across(HEIGHT - 54, 20, 0),
    positionY: BOTTOM - 6,
    layer,
    attention,
    cross,
    norms,
    ffn,
    collapsed,
    topY: top - 8,
  };
}

function attentionBox(box: Rect, keyLanes: number[]): AttentionBox {
  return { box, keyLanes, keysY: box.y + box.height - 13, queriesY: box.y + 32 };
}

function spread(left: number, pitch: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => left + (index + 0.5) * pitch);
}

export function union(...rects: Rect[]): Rect {
  const x = Math.min(...rects.map((one) => one.x));
  const y = Math.min(...rects.map((one) => one.y));
  const right = Math.max(...rects.map((one) => one.x + one.width));
  const bottom = Math.max(...rects.map((one) => one.y + one.height));
  return { x, y, width: right - x, height: bottom - y };
}
