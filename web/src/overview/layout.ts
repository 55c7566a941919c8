// The layout of the model diagram. Every token keeps its row from left to right.

export interface Span {
  x: number;
  width: number;
}

export interface LayerLayout {
  /** Encoder self-attention, as wide as the decoder's two attentions together. */
  attention: Span;
  self: Span;
  cross: Span;
  out: Span;
}

export interface Layout {
  width: number;
  height: number;
  row: number;
  encoderTop: number;
  decoderTop: number;
  encoderBottom: number;
  linksY: number;
  tokens: Span;
  embedded: Span;
  layers: LayerLayout[];
  memory: Span;
  probabilities: Span;
}

const GAP = 12;

/** The x coordinate of a source token's marker above a cross-attention. */
export const markerX = (span: Span, index: number, count: number): number => span.x + ((index + 0.5) / count) * span.width;

/** Curves from the row of a key to the row of a query. */
export function selfAttentionCurve(span: Span, top: number, row: number): (query: number, key: number) => string {
  const [left, right] = [span.x + 5, span.x + span.width - 5];
  const bend = (right - left) / 2;
  return (query, key) => {
    const [from, to] = [top + (key + 0.5) * row, top + (query + 0.5) * row];
    return `M${left} ${from}C${left + bend} ${from} ${right - bend} ${to} ${right} ${to}`;
  };
}

/** Curves from the marker of a source token down to the row of a query. */
export function crossAttentionCurve(span: Span, top: number, row: number, count: number): (query: number, key: number) => string {
  const right = span.x + span.width - 4;
  return (query, key) => {
    const [x, y] = [markerX(span, key, count), top + (query + 0.5) * row];
    return `M${x} ${top - 5}Q${x} ${y} ${right} ${y}`;
  };
}

export function layoutDiagram(availableWidth: number, layers: number, src: number, tgt: number): Layout {
  const longest = Math.max(src, tgt);
  const row = longest > 40 ? 11 : longest > 22 ? 15 : 21;
  const tokens: Span = { x: 0, width: row < 12 ? 52 : 82 };
  const embedded: Span = { x: tokens.width + 6, width: 34 };
  const outWidth = 34;
  const start = embedded.x + embedded.width + GAP;
  const end = 158;
  const perLayer = (availableWidth - start - end) / layers;
  const column = Math.max(46, Math.min(110, (perLayer - outWidth - 3 * GAP) / 2));
  const layerLayouts = Array.from({ length: layers }, (_, i): LayerLayout => {
    const x = start + i * (2 * column + outWidth + 3 * GAP);
    const self = { x, width: column };
    const cross = { x: x + column + GAP, width: column };
    const out = { x: cross.x + column + GAP, width: outWidth };
    return { attention: { x, width: 2 * column + GAP }, self, cross, out };
  });
  const right = start + layers * (2 * column + outWidth + 3 * GAP);
  const encoderTop = 34;
  const encoderBottom = encoderTop + src * row;
  const linksY = encoderBottom + 26;
  const decoderTop = linksY + 58;
  return {
    width: right + end,
    height: decoderTop + tgt * row + 34,
    row,
    encoderTop,
    encoderBottom,
    decoderTop,
    linksY,
    tokens,
    embedded,
    layers: layerLayouts,
    memory: { x: right, width: outWidth },
    probabilities: { x: right, width: end - 4 },
  };
}
