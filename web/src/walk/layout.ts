// Where everything stands in the picture of the whole model. Every token keeps its row from left to right.

export interface Span {
  x: number;
  width: number;
}

export interface LayerPlace {
  /** Of the encoder, which has no cross-attention: as wide as the decoder's two. */
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
  busY: number;
  words: Span;
  embedded: Span;
  layers: LayerPlace[];
  memory: Span;
  probabilities: Span;
}

const GAP = 12;

/** Where a piece of the source hangs above a cross-attention. */
export const peg = (span: Span, place: number, count: number): number => span.x + ((place + 0.5) / count) * span.width;

/** From the row of a key to the row of the query that looks at it. */
export function acrossRows(span: Span, top: number, row: number): (query: number, key: number) => string {
  const [left, right] = [span.x + 5, span.x + span.width - 5];
  const bend = (right - left) / 2;
  return (query, key) => {
    const [from, to] = [top + (key + 0.5) * row, top + (query + 0.5) * row];
    return `M${left} ${from}C${left + bend} ${from} ${right - bend} ${to} ${right} ${to}`;
  };
}

/** From the peg of a key down to the row of the query. */
export function fromPegs(span: Span, top: number, row: number, count: number): (query: number, key: number) => string {
  const right = span.x + span.width - 4;
  return (query, key) => {
    const [x, y] = [peg(span, key, count), top + (query + 0.5) * row];
    return `M${x} ${top - 5}Q${x} ${y} ${right} ${y}`;
  };
}

export function place(room: number, layers: number, src: number, tgt: number): Layout {
  const longest = Math.max(src, tgt);
  const row = longest > 40 ? 11 : longest > 22 ? 15 : 21;
  const words: Span = { x: 0, width: row < 12 ? 52 : 82 };
  const embedded: Span = { x: words.width + 6, width: 34 };
  const outWidth = 34;
  const start = embedded.x + embedded.width + GAP;
  const end = 158;
  const perLayer = (room - start - end) / layers;
  const column = Math.max(46, Math.min(110, (perLayer - outWidth - 3 * GAP) / 2));
  const places = Array.from({ length: layers }, (_, i): LayerPlace => {
    const x = start + i * (2 * column + outWidth + 3 * GAP);
    const self = { x, width: column };
    const cross = { x: x + column + GAP, width: column };
    const out = { x: cross.x + column + GAP, width: outWidth };
    return { attention: { x, width: 2 * column + GAP }, self, cross, out };
  });
  const right = start + layers * (2 * column + outWidth + 3 * GAP);
  const encoderTop = 34;
  const encoderBottom = encoderTop + src * row;
  const busY = encoderBottom + 26;
  const decoderTop = busY + 58;
  return {
    width: right + end,
    height: decoderTop + tgt * row + 34,
    row,
    encoderTop,
    encoderBottom,
    decoderTop,
    busY,
    words,
    embedded,
    layers: places,
    memory: { x: right, width: outWidth },
    probabilities: { x: right, width: end - 4 },
  };
}
