// One frame of the walk: the boxes of the figure, and every vector where it is at this moment.
import type { NumberArray } from "../api/arrays";
import type { Next } from "../api/types";
import { percent } from "../format/numbers";
import { displayToken, truncate } from "../format/tokens";
import type { Word } from "../format/words";
import type { Hue } from "../theme/colours";
import { drawAttention, type AttentionProgress } from "./drawAttention";
import type { AttentionBox, Column, Figure } from "./geometry";
import { alongPath, ease, mix, within, type Painter } from "./painter";
import { progressOf, type Moment, type Stage } from "./stages";
import type { WalkValues } from "./walkValues";

export interface Texts {
  attention: string;
  masked: string;
  cross: string;
  norm: string;
  ffn: string;
  linear: string;
  softmax: string;
  embedding: string;
  targetEmbedding: string;
  position: string;
  encoder: string;
  decoder: string;
  layer: (number: number) => string;
}

export interface Frame {
  painter: Painter;
  figure: Figure;
  values: WalkValues;
  now: Moment;
  /** The words under the lanes: the source, and the input of the decoder. */
  src: Word[];
  tgt: Word[];
  /** The most likely tokens at this step, once they have come. */
  next: Next | null;
  /** The name of each source token, and of each token that is written. */
  names: string[];
  written: string[];
  position: number;
  head: number;
  layers: { encoder: number; decoder: number };
  texts: Texts;
}

export function drawFrame(frame: Frame): void {
  drawBoxes(frame);
  drawEncoder(frame);
  drawDecoder(frame);
  drawBus(frame);
  drawOutput(frame);
}

function drawBoxes({ painter, figure, texts, layers, now }: Frame): void {
  const { encoder, decoder } = figure;
  const tint = (hue: Hue, share: number): string => painter.colour(hue, share);
  for (const column of [encoder, decoder]) {
    painter.box(column.layer, tint("ink", 0.03), painter.tones.line, 9);
    for (const lane of column.lanes) painter.line([[lane, column.tokensY - 10], [lane, column.topY]], tint("ink", 0.12), 0.6);
    painter.box(column.embedding, tint("ink", 0.05));
    for (const { rect, layer } of column.collapsed) {
      painter.box(rect, tint("ink", 0.07));
      painter.text(texts.layer(layer + 1), rect.x + rect.width / 2, rect.y + rect.height / 2, 11.5, { colour: painter.tones.soft });
    }
    const open = column === encoder ? layers.encoder : layers.decoder;
    painter.text(texts.layer(open + 1), column.rect.x - 6, column.layer.y + 10, 11.5, { align: "right", colour: painter.tones.soft, width: 66 });
    attentionBox(painter, column.attention, column === encoder ? texts.attention : texts.masked);
    if (column.cross) attentionBox(painter, column.cross, texts.cross);
    for (const norm of column.norms) {
      painter.box(norm, painter.tones.card);
      painter.text(texts.norm, norm.x + norm.width / 2, norm.y + norm.height / 2, 11, { colour: painter.tones.soft });
    }
    painter.box(column.ffn, tint("query", 0.07));
    painter.text(texts.ffn, column.ffn.x + 8, column.ffn.y + 11, 11.5, { align: "left", colour: painter.tones.soft });
    painter.text(column === encoder ? texts.embedding : texts.targetEmbedding, column.embedding.x - 6, column.embedding.y + 10, 11.5, {
      align: "right",
      colour: painter.tones.soft,
      width: 66,
    });
    painter.text(texts.position, column.rect.x - 6, column.positionY, 11.5, { align: "right", colour: painter.tones.soft, width: 66 });
  }
  painter.text(texts.encoder, encoder.rect.x + encoder.rect.width / 2, 26, 16, { bold: true, alpha: now.stage === "bus" ? 0.3 : 1 });
  painter.text(texts.decoder, decoder.rect.x + decoder.rect.width, 22, 16, { bold: true, align: "right" });
  painter.box(figure.linear, tint("ink", 0.07));
  painter.text(texts.linear, figure.linear.x + figure.linear.width / 2, figure.linear.y + 8, 11.5, { colour: painter.tones.soft });
  painter.box(figure.softmax, tint("attention", 0.05));
  painter.text(texts.softmax, figure.softmax.x + 8, figure.softmax.y + 11, 11.5, { align: "left", colour: painter.tones.soft });
}

function attentionBox(painter: Painter, part: AttentionBox, name: string): void {
  painter.box(part.box, painter.colour("attention", 0.06), painter.colour("attention", 0.35));
  painter.text(name, part.box.x + 8, part.box.y + 11, 11.5, { align: "left", colour: painter.tones.soft });
}

/** The vectors of some lanes on their way from one height to another, changing from one matrix to the next. */
function rise(
  { painter }: Frame,
  column: Column,
  lanes: [number, number],
  from: [NumberArray | null, number],
  to: [NumberArray | null, number],
  t: number,
  hue: Hue = "ink",
): void {
  if (t <= 0) return;
  const { width, height } = column.strip;
  const changed = within(t, 0.45, 0.9);
  for (let lane = lanes[0]; lane < lanes[1]; lane++) {
    const y = mix(from[1], to[1], ease(t));
    painter.strip(from[0], lane, column.lanes[lane], y, width, height, "ink", 1 - changed);
    painter.strip(to[0], lane, column.lanes[lane], y, width, height, hue, changed);
  }
}

function words({ painter }: Frame, column: Column, found: Word[], chosen: number, visible: number): void {
  const pitch = column.lanes.length > 1 ? column.lanes[1] - column.lanes[0] : 76;
  for (const word of found) {
    if (word.from >= visible) continue;
    const x = (column.lanes[word.from] + column.lanes[Math.min(word.to, column.lanes.length) - 1]) / 2;
    const lit = chosen >= word.from && chosen < word.to;
    const room = pitch * (word.to - word.from);
    painter.text(truncate(word.text, 14), x, column.tokensY, Math.min(16, Math.max(9, pitch * 0.42)), {
      bold: lit,
      colour: lit ? painter.colour("attention") : painter.tones.text,
      width: room + 4,
    });
    if (word.to - word.from > 1) painter.line([[column.lanes[word.from] - pitch * 0.35, column.tokensY - 9], [column.lanes[word.to - 1] + pitch * 0.35, column.tokensY - 9]], painter.tones.soft, 0.7);
  }
}

function drawEncoder(frame: Frame): void {
  const { painter, figure, values, now, src, position } = frame;
  const column = figure.encoder;
  const all: [number, number] = [0, column.lanes.length];
  const at = (stage: Stage): number => progressOf(stage, now);
  const embeddingY = column.embedding.y + 10;
  words(frame, column, src, position, Math.ceil(column.lanes.length * Math.min(1, at("tokens") * 1.4)));
  const { width, height } = column.strip;
  for (let lane = 0; lane < all[1]; lane++)
    painter.strip(values.embedding, lane, column.lanes[lane], mix(column.tokensY, embeddingY, ease(at("embedding"))), width, height, "ink", within(at("embedding"), 0.05, 0.3));
  if (at("position") > 0) {
    rise(frame, column, all, [values.embedding, embeddingY], [values.embedded, column.positionY], at("position"));
    if (at("position") < 1)
      for (let lane = 0; lane < all[1]; lane++)
        painter.strip(values.position, lane, column.lanes[lane] - width * (1 - ease(at("position"))), column.positionY, width, height, "attention", 1 - within(at("position"), 0.6, 1));
  }
  const [norm, normFfn] = column.norms;
  drawAttention({
    ...{ painter, part: column.attention, values: values.encoder, queryLanes: column.lanes, queries: all[1], keys: all[1] },
    names: { queries: frame.names, keys: frame.names },
    ...{ chosen: position, head: frame.head, strip: column.strip, fromY: column.positionY, keysArrived: false },
    progress: { project: at("project"), scores: at("scores"), softmax: at("softmax"), mix: at("mix"), heads: at("heads") },
  });
  residual(frame, column, column.positionY, norm.y + 8, values.embedded, at("norm"), all);
  rise(frame, column, all, [values.encoder.out, column.attention.queriesY - 12], [values.encoderNormed, norm.y + 8], at("norm"));
  feedForward(frame, column, all, values.encoderHidden, at("ffn"), norm.y + 8, values.encoderNormed);
  residual(frame, column, norm.y + 8, normFfn.y + 8, values.encoderNormed, at("norm-ffn"), all);
  rise(frame, column, all, [values.encoderHidden, column.ffn.y + column.ffn.height * 0.55], [values.encoderOut, normFfn.y + 8], at("norm-ffn"));
  rise(frame, column, all, [values.encoderOut, normFfn.y + 8], [values.memory, column.topY], at("layers"), "value");
}

/** The residual connection: the vector itself goes around the sublayer, on the left of its lane. */
function residual({ painter }: Frame, column: Column, fromY: number, toY: number, array: NumberArray | null, t: number, lanes: [number, number]): void {
  if (t <= 0 || t >= 1) return;
  const { width, height } = column.strip;
  for (let lane = lanes[0]; lane < lanes[1]; lane++) {
    const x = column.lanes[lane] - width * 0.5 * Math.sin(Math.PI * Math.min(1, t * 1.1));
    painter.strip(array, lane, x, mix(fromY, toY, ease(within(t, 0, 0.7))), width * 0.8, height, "ink", 0.55 * (1 - within(t, 0.7, 1)));
  }
}

/** The vector widens to d_ff numbers. */
function feedForward({ painter }: Frame, column: Column, lanes: [number, number], hidden: NumberArray | null, t: number, fromY: number, before: NumberArray | null): void {
  if (t <= 0) return;
  const y = column.ffn.y + column.ffn.height * 0.55;
  const pitch = column.lanes.length > 1 ? column.lanes[1] - column.lanes[0] : 76;
  for (let lane = lanes[0]; lane < lanes[1]; lane++) {
    const wide = mix(column.strip.width, pitch * 0.96, within(t, 0.4, 0.8));
    const at = mix(fromY, y, ease(within(t, 0, 0.6)));
    painter.strip(before, lane, column.lanes[lane], at, wide, column.strip.height, "ink", t >= 1 ? 0 : 1 - within(t, 0.4, 0.7));
    painter.strip(hidden, lane, column.lanes[lane], at, wide, column.strip.height * 1.3, "query", within(t, 0.4, 0.7));
  }
}

const whole = (t: number): AttentionProgress => ({
  project: within(t, 0, 0.25),
  scores: within(t, 0.2, 0.45),
  softmax: within(t, 0.4, 0.55),
  mix: within(t, 0.5, 0.85),
  heads: within(t, 0.82, 1),
});

function drawDecoder(frame: Frame): void {
  const { painter, figure, values, now, tgt } = frame;
  const column = figure.decoder;
  if (!column.cross) return;
  const begun = progressOf("target", now) > 0;
  const step = now.step;
  words(frame, column, tgt, step, begun ? step + 1 : 1);
  if (!begun) return;
  const { width, height } = column.strip;
  const at = (stage: Stage): number => progressOf(stage, now);
  const lane: [number, number] = [step, step + 1];
  // What was computed for earlier tokens stays; the token of this step is on its way.
  for (let earlier = 0; earlier < step; earlier++) {
    painter.strip(values.target, earlier, column.lanes[earlier], column.positionY, width, height, "ink", 0.5);
    painter.strip(values.decoderTop, earlier, column.lanes[earlier], column.topY, width, height, "ink", 0.35);
  }
  rise(frame, column, lane, [values.target, column.tokensY - 12], [values.target, column.positionY], at("target"));
  const base = { painter, queryLanes: column.lanes, queries: step + 1, chosen: step, head: frame.head, strip: column.strip, names: { queries: frame.written, keys: frame.names } };
  const [afterSelf, afterCross, afterFfn] = column.norms;
  if (at("self") > 0)
    drawAttention({ ...base, part: column.attention, values: values.decoder, keys: step + 1, names: { queries: frame.written, keys: ["<s>", ...frame.written] }, fromY: column.positionY, keysArrived: false, progress: whole(at("self")) });
  residual(frame, column, column.positionY, afterSelf.y + 8, values.target, at("self-norm"), lane);
  rise(frame, column, lane, [values.decoder.out, column.attention.queriesY - 12], [values.decoderNormed, afterSelf.y + 8], at("self-norm"));
  drawAttention({
    ...{ ...base, part: column.cross, values: values.cross, keys: column.cross.keyLanes.length, fromY: afterSelf.y + 8, keysArrived: true },
    ...{ queries: at("cross") > 0 ? step + 1 : 0, progress: whole(at("cross")) },
  });
  residual(frame, column, afterSelf.y + 8, afterCross.y + 8, values.decoderNormed, at("cross-norm"), lane);
  rise(frame, column, lane, [values.cross.out, column.cross.queriesY - 12], [values.crossNormed, afterCross.y + 8], at("cross-norm"));
  feedForward(frame, column, lane, values.decoderHidden, at("target-ffn"), afterCross.y + 8, values.crossNormed);
  rise(frame, column, lane, [values.decoderHidden, column.ffn.y + column.ffn.height * 0.55], [values.decoderOut, afterFfn.y + 8], at("target-norm"));
  rise(frame, column, lane, [values.decoderOut, afterFfn.y + 8], [values.decoderTop, column.topY], at("target-layers"));
}

/** The encoder's output travels to every cross-attention. */
function drawBus({ painter, figure, values, now }: Frame): void {
  const { encoder, decoder, busX, busY } = figure;
  const cross = decoder.cross;
  if (!cross) return;
  const t = progressOf("bus", now);
  const middle = encoder.rect.x + encoder.rect.width / 2;
  const target = cross.box.x;
  for (const [hue, shift] of [["key", -2.5], ["value", 2.5]] as const)
    painter.line(
      [[middle + shift, encoder.topY - 6], [middle + shift, busY + shift], [busX - shift, busY + shift], [busX - shift, cross.keysY + shift], [target, cross.keysY + shift]],
      painter.colour(hue, t > 0 ? 0.75 : 0.25),
      1.6,
    );
  if (t <= 0 || t >= 1) return;
  const { width, height } = encoder.strip;
  encoder.lanes.forEach((lane, index) => {
    const path: [number, number][] = [[lane, encoder.topY], [lane, busY], [busX, busY], [busX, cross.keysY], [cross.keyLanes[index], cross.keysY]];
    const delay = 0.35 * (1 - index / Math.max(encoder.lanes.length, 1));
    const moved = ease(within(t, delay, delay + 0.65));
    if (moved <= 0 || moved >= 1) return;
    const [x, y] = alongPath(path, moved);
    painter.strip(values.memory, index, x, y, Math.min(width, 26), height, "value", 0.9);
  });
}

/** Linear and softmax: the most likely tokens; the chosen one goes back to the decoder's input. */
function drawOutput(frame: Frame): void {
  const { painter, figure, values, now, written } = frame;
  const { softmax, decoder } = figure;
  const linear = progressOf("linear", now);
  const t = progressOf("next", now);
  const x = decoder.lanes[Math.min(now.step, decoder.lanes.length - 1)];
  if (linear > 0 && linear < 1)
    painter.strip(values.decoderTop, now.step, x, mix(decoder.topY, figure.linear.y + 8, ease(linear)), mix(decoder.strip.width, softmax.width * 0.9, within(linear, 0.6, 1)), decoder.strip.height, "ink");
  const { next } = frame;
  if (t > 0 && next) {
    next.top.slice(0, 5).forEach((token, index) => {
      const y = softmax.y + 13 + index * 15;
      const chosen = token.id === next.chosen.id;
      const width = (softmax.width - 210) * token.probability * ease(t);
      painter.context.fillStyle = painter.colour(chosen ? "attention" : "ink", chosen ? 0.85 : 0.35);
      painter.context.fillRect(softmax.x + 150, y - 5, Math.max(1, width), 10);
      painter.text(truncate(displayToken(token.piece), 12), softmax.x + 144, y, 10.5, { align: "right", bold: chosen });
      painter.text(percent(token.probability), softmax.x + 156 + width, y, 11.5, { align: "left", colour: painter.tones.soft });
    });
  }
  const name = written[now.step];
  if (t > 0.5 && name) painter.text(name, softmax.x + 150, figure.outputY, 15, { align: "left", bold: true, colour: painter.colour("attention"), alpha: within(t, 0.5, 1) });
  const loop = progressOf("loop", now);
  if (loop > 0 && loop < 1 && name && now.step + 1 < decoder.lanes.length) {
    const right = decoder.rect.x + decoder.rect.width + 14;
    const path: [number, number][] = [[softmax.x + 160, figure.outputY], [right, figure.outputY], [right, decoder.tokensY + 6], [decoder.lanes[now.step + 1], decoder.tokensY]];
    painter.line(path, painter.colour("attention", 0.35), 1, [4, 4]);
    const [at, y] = alongPath(path, ease(loop));
    painter.text(name, at, y, 12, { bold: true, colour: painter.colour("attention") });
  }
}
