// One attention: queries above, keys and values below, a line per weight, and the values that move along the lines.
import { fixed, percent } from "../format/numbers";
import { argmax } from "../maths/vectors";
import type { AttentionBox } from "./geometry";
import { ease, mix, within, type Painter } from "./painter";
import type { AttentionValues } from "./walkValues";

export interface AttentionProgress {
  /** Q, K and V split off, scores, softmax, values mixed, heads joined: each from 0 to 1. */
  project: number;
  scores: number;
  softmax: number;
  mix: number;
  heads: number;
}

interface Scene {
  painter: Painter;
  part: AttentionBox;
  values: AttentionValues;
  queryLanes: number[];
  /** Queries that exist so far, and the one that is looked at. */
  queries: number;
  chosen: number;
  keys: number;
  head: number;
  /** The words of the queries and of the keys; they are written when the camera is near. */
  names: { queries: string[]; keys: string[] };
  strip: { width: number; height: number };
  /** Where the vectors come from; null: the keys come over the bus and are there already. */
  fromY: number;
  keysArrived: boolean;
  progress: AttentionProgress;
}

const THRESHOLD = 0.03;

export function drawAttention(scene: Scene): void {
  const { painter, part, queryLanes, progress, strip, queries, keys } = scene;
  const { q, k, v } = scene.values;
  const moved = ease(progress.project);
  const chip = strip.width * 0.46;
  const keyAlpha = scene.keysArrived ? 1 : within(progress.project, 0.02, 0.2);
  // K and V of each key; with self-attention they come up the same lane as Q.
  for (let key = 0; key < keys && keyAlpha > 0; key++) {
    const x = part.keyLanes[key];
    const y = scene.keysArrived ? part.keysY : mix(scene.fromY, part.keysY, moved);
    const apart = (scene.keysArrived ? 1 : moved) * strip.width * 0.25;
    painter.strip(k, key, x - apart, y, chip, strip.height, "key", keyAlpha);
    painter.strip(v, key, x + apart, y, chip, strip.height, "value", keyAlpha);
  }
  if (progress.project > 0.8) {
    const size = Math.min(8.5, strip.width * 0.2);
    for (let key = 0; key < keys; key++) painter.text(scene.names.keys[key], part.keyLanes[key], part.keysY + 9, size, { colour: painter.colour("key") });
    for (let query = 0; query < queries; query++)
      painter.text(scene.names.queries[query], queryLanes[query], part.queriesY - 11, size, { colour: painter.colour("query"), bold: query === scene.chosen, alpha: 1 - progress.heads });
  }
  if (progress.scores > 0) drawLines(scene);
  if (progress.mix > 0 && progress.mix < 1) drawMovingValues(scene, chip);
  for (let query = 0; query < queries; query++) {
    const mixed = progress.mix >= 1 ? 1 : within(progress.mix, 0.75, 1);
    const y = mix(scene.fromY, part.queriesY, moved);
    const alpha = within(progress.project, 0.02, 0.2);
    painter.strip(q, query, queryLanes[query], y, strip.width * 0.7, strip.height, "query", alpha * (1 - mixed) * (query === scene.chosen ? 1 : 0.75));
    if (mixed) drawHeads(scene, query, mixed);
  }
  if (progress.scores > 0 && progress.mix < 0.5) drawNumbers(scene);
}

function weight({ values }: Scene, query: number, key: number): number {
  return values.weights.values[query * values.weights.shape[1] + key] / 255;
}

function drawLines(scene: Scene): void {
  const { painter, part, queryLanes, progress, queries, keys, chosen } = scene;
  const top = part.queriesY + scene.strip.height;
  const bottom = part.keysY - scene.strip.height;
  for (let query = 0; query < queries; query++)
    for (let key = 0; key < keys; key++) {
      const final = weight(scene, query, key);
      const shown = query === chosen ? mix(1 / keys, final, progress.softmax) : final * progress.softmax;
      if (shown < THRESHOLD && !(query === chosen && progress.softmax < 1)) continue;
      const reached = query === chosen ? within(progress.scores, key / keys, (key + 1) / keys) : progress.softmax;
      if (!reached) continue;
      const opacity = (query === chosen ? 0.25 + 0.75 * shown : 0.3 * shown) * reached;
      painter.curve(part.keyLanes[key], bottom, queryLanes[query], top, painter.colour("attention", opacity), 0.5 + (query === chosen ? 4.5 : 2.5) * shown);
    }
}

/** The scores of the chosen query, which become its weights. */
function drawNumbers(scene: Scene): void {
  const { painter, part, values, progress, keys, chosen, strip } = scene;
  const columns = values.weights.shape[1];
  const pitch = keys > 1 ? part.keyLanes[1] - part.keyLanes[0] : 76;
  const size = Math.min(13, pitch * 0.3);
  for (let key = 0; key < keys; key++) {
    const reached = within(progress.scores, key / keys, (key + 1) / keys);
    const y = part.keysY - strip.height - 6;
    const score = values.scores?.values[chosen * columns + key];
    if (score !== undefined) painter.text(fixed(score, 1), part.keyLanes[key], y, size, { alpha: reached * (1 - progress.softmax) });
    if (progress.softmax > 0) {
      const share = weight(scene, chosen, key);
      const height = 26 * share * progress.softmax;
      painter.context.fillStyle = painter.colour("attention", 0.55 * progress.softmax);
      painter.context.fillRect(part.keyLanes[key] - pitch * 0.3, y + 5 - height, pitch * 0.6, height);
      painter.text(percent(share), part.keyLanes[key], y - height - 1, size, { alpha: progress.softmax, bold: true, colour: painter.colour("attention") });
    }
  }
}

function drawMovingValues(scene: Scene, chip: number): void {
  const { painter, part, queryLanes, progress, queries, keys, chosen, strip, values } = scene;
  const best = argmax(values.weights.values.subarray(chosen * values.weights.shape[1], chosen * values.weights.shape[1] + keys));
  for (let query = 0; query < queries; query++)
    for (let key = 0; key < keys; key++) {
      const share = weight(scene, query, key);
      const mine = query === chosen;
      if (share < (mine ? THRESHOLD : 0.2) && !(mine && key === best)) continue;
      const t = ease(within(progress.mix, 0.12 * (key / keys), 0.85));
      if (t <= 0 || t >= 1) continue;
      const [x, y] = painter.along(part.keyLanes[key], part.keysY, queryLanes[query], part.queriesY, t);
      painter.strip(values.v, key, x, y, chip * (0.4 + 0.6 * share), strip.height * (0.5 + 0.5 * share), "value", mine ? 0.35 + 0.65 * share : 0.3);
    }
}

/** The outputs of all heads side by side, then W_O times their concatenation. */
function drawHeads(scene: Scene, query: number, alpha: number): void {
  const { painter, part, queryLanes, progress, strip, values, head } = scene;
  const { heads, out } = values;
  const joined = ease(progress.heads);
  const x = queryLanes[query];
  if (heads) {
    const [count, rows] = heads.shape;
    const width = (strip.width / count) * mix(0.8, 1, joined);
    for (let one = 0; one < count; one++) {
      const shown = one === head ? alpha : joined;
      painter.strip(heads, one * rows + query, x + (one - (count - 1) / 2) * width * mix(1.15, 1, joined), part.queriesY, width, strip.height, "value", shown * (1 - within(joined, 0.7, 1)));
    }
  }
  if (joined > 0) painter.strip(out, query, x, mix(part.queriesY, part.queriesY - 12, joined), strip.width, strip.height, "attention", joined);
}
