// Interventions: changes to a model for one request, applied through hooks on its taps as in inspect/patching.py.
//
// Within `intervened`, whole passes and the cached steps of a search run with them; afterwards the model is unchanged.
//
// Shapes: B rows, H heads, L query length, M memory length.
import type { Intervention, WeightSet } from "../../api/types";
import { ModelError } from "../config";
import { Positions } from "../positions";
import { softmax, zeros, type Tensor } from "../tensor";
import type { Hook } from "../taps";
import type { Transformer } from "../transformer";

/** In this order they are applied: a weight can be set in a head that is switched off. */
const KINDS: readonly Intervention["kind"][] = ["scale", "positions", "mask", "head", "weight", "attention", "ffn", "residual", "layer"];

type Undo = () => void;

export async function intervened<Result>(
  model: Transformer,
  interventions: readonly Intervention[],
  run: () => Promise<Result> | Result,
): Promise<Result> {
  checkPlaces(model, interventions);
  const undo: Undo[] = [];
  try {
    const weights = interventions.filter((one) => one.kind === "weight");
    for (const kind of KINDS) {
      if (kind === "weight" && weights.length) undo.push(setWeights(model, weights));
      const ofKind = interventions.filter((one) => one.kind === kind);
      for (const one of ofKind.sort((a, b) => layerOf(a) - layerOf(b))) undo.push(apply(model, one));
    }
    return await run();
  } finally {
    for (const one of undo.reverse()) one();
  }
}

/** Of two layers that are skipped, the lower one must be skipped first. */
const layerOf = (one: Intervention): number => ("where" in one ? Number(one.where.split(".")[1]) : 0);

function apply(model: Transformer, one: Intervention): Undo {
  switch (one.kind) {
    case "scale":
      return withoutScale(model);
    case "positions":
      return withoutPositions(model);
    case "mask":
      return withoutCausalMask(model);
    case "head":
      return model.taps.attach([[`${one.where}.weights`, (weights) => silenceHead(weights, one.head)]]);
    case "weight":
      return () => {}; // `setWeights` applies these to the whole model
    case "attention":
      return model.taps.attach([[`${one.where}.attn_out`, (x) => zeros(...x.shape)]]);
    case "ffn":
      return model.taps.attach([[`${one.where}.ffn.ffn_out`, (x) => zeros(...x.shape)]]);
    case "residual":
      return withoutResidual(model, one.where);
    case "layer":
      return withoutLayer(model, one.where);
  }
}

function withoutScale(model: Transformer): Undo {
  const before = [...model.attentions.values()].map((attention) => [attention, attention.scale] as const);
  for (const [attention] of before) attention.scale = 1;
  return () => {
    for (const [attention, scale] of before) attention.scale = scale;
  };
}

function withoutPositions(model: Transformer): Undo {
  const { srcPositions, tgtPositions } = model;
  Object.assign(model, { srcPositions: new Positions(), tgtPositions: new Positions() });
  return () => Object.assign(model, { srcPositions, tgtPositions });
}

/** Recompute the weights from the scores, whose tap comes before the mask. */
function withoutCausalMask(model: Transformer): Undo {
  const own = [...model.attentions.keys()].filter((path) => path.startsWith("decoder.") && path.endsWith(".attention"));
  const scores = new Map<string, Tensor>();
  const hooks = own.flatMap((path): [string, Hook][] => [
    [`${path}.scores`, (x) => void scores.set(path, x)],
    [`${path}.weights`, () => softmax(scores.get(path)!)],
  ]);
  return model.taps.attach(hooks);
}

function silenceHead(weights_BHLM: Tensor, head: number): Tensor {
  const [B, H, L, M] = weights_BHLM.shape;
  const values = weights_BHLM.values.slice();
  for (let b = 0; b < B; b++) values.fill(0, (b * H + head) * L * M, (b * H + head + 1) * L * M);
  return { shape: weights_BHLM.shape, values };
}

/** Replace x + sublayer(x) by sublayer(x). */
function withoutResidual(model: Transformer, layer: string): Undo {
  const sublayers: [string, string][] = [
    ["attention", "attn_out"],
    ["cross", "attn_out"],
    ["ffn", "ffn_out"],
  ];
  const hooks = sublayers
    .filter(([sublayer, tap]) => model.taps.has(`${layer}.${sublayer}.${tap}`))
    .flatMap(([sublayer, tap]): [string, Hook][] => {
      let change: Tensor;
      return [
        [`${layer}.${sublayer}.${tap}`, (x) => void (change = x)],
        [`${layer}.around_${sublayer}.resid`, () => change],
      ];
    });
  return model.taps.attach(hooks);
}

/** Replace the layer's output by its input. The layer still runs, so that the caches of a search stay complete. */
function withoutLayer(model: Transformer, layer: string): Undo {
  const [side, number] = layer.split(".");
  const tap = model.config.norm_order === "pre" ? "resid" : "normed";
  const embedded = side === "encoder" ? "src_embedded" : "tgt_embedded";
  const before = number === "0" ? embedded : `${side}.${Number(number) - 1}.around_ffn.${tap}`;
  let input: Tensor;
  const keep = model.taps.attach([[before, (x) => void (input = x)]]);
  const replace = model.taps.attach([[`${layer}.around_ffn.${tap}`, () => input]]);
  return () => {
    replace();
    keep();
  };
}

/** Set single weights. A row is a position in the sentence, in a whole pass and in a step of a search alike. */
function setWeights(model: Transformer, wanted: readonly WeightSet[]): Undo {
  const rows = new Map<string, { place: WeightSet; columns: Map<number, number> }>();
  for (const one of wanted) {
    const key = `${one.where} ${one.head} ${one.row}`;
    const { columns } = rows.get(key) ?? rows.set(key, { place: one, columns: new Map() }).get(key)!;
    columns.set(one.column, one.value);
    if (sum(columns.values()) > 1 + 1e-6)
      throw new ModelError(`the weights set in row ${one.row} of ${one.where}, head ${one.head}, sum to more than 1`);
  }
  let start = 0; // position of the first query of a pass through the decoder
  // The shape of cross-attention does not tell the step; that of the self-attention before it does.
  const follow: [string, Hook] = ["decoder.0.attention.weights", (x) => void (start = x.shape[3] - x.shape[2])];
  const change = (where: string): Hook => (weights_BHLM) => {
    const first = where.startsWith("encoder") ? 0 : start;
    const [B, H, L, M] = weights_BHLM.shape;
    const values = weights_BHLM.values.slice();
    for (const { place, columns } of rows.values()) {
      const row = place.row - first;
      if (place.where !== where || row < 0 || row >= L) continue;
      for (let b = 0; b < B; b++) {
        const from = ((b * H + place.head) * L + row) * M;
        setRow(values.subarray(from, from + M), columns);
      }
    }
    return { shape: weights_BHLM.shape, values };
  };
  const places = new Set(wanted.map(({ where }) => where));
  return model.taps.attach([follow, ...Array.from(places, (where): [string, Hook] => [`${where}.weights`, change(where)])]);
}

/** Set these columns in place, and scale the others so that the row sums to 1. */
function setRow(row_M: Float32Array, columns: ReadonlyMap<number, number>): void {
  const there = [...columns].filter(([column]) => column < row_M.length);
  for (const [column] of there) row_M[column] = 0;
  const factor = (1 - sum(there.map(([, value]) => value))) / Math.max(sum(row_M), 1e-12);
  for (let i = 0; i < row_M.length; i++) row_M[i] *= factor;
  for (const [column, value] of there) row_M[column] = value;
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

function checkPlaces(model: Transformer, interventions: readonly Intervention[]): void {
  for (const one of interventions) {
    switch (one.kind) {
      case "head":
      case "weight": {
        checkWhere(model, one.where, "weights", one.kind);
        const { nHeads } = model.attentions.get(one.where)!;
        if (!Number.isInteger(one.head) || one.head < 0 || one.head >= nHeads)
          throw new ModelError(`${one.where} has no head ${one.head}: it has ${nHeads}, numbered from 0 to ${nHeads - 1}`);
        break;
      }
      case "attention":
        checkWhere(model, one.where, "attn_out", one.kind);
        break;
      case "ffn":
        checkWhere(model, one.where, "ffn.ffn_out", one.kind);
        break;
      case "residual":
      case "layer":
        checkWhere(model, one.where, "around_ffn.resid", one.kind);
        break;
      case "positions":
        if (model.config.position === "none") throw new ModelError("this model has no position information to remove");
        break;
      case "scale":
      case "mask":
        break;
      default:
        throw new ModelError(`there is no intervention of the kind '${String((one as { kind: unknown }).kind)}'`);
    }
  }
}

function checkWhere(model: Transformer, where: string, tap: string, kind: string): void {
  if (model.taps.has(`${where}.${tap}`)) return;
  const places = model.taps.paths.filter((path) => path.endsWith(`.${tap}`)).map((path) => path.slice(0, -tap.length - 1));
  throw new ModelError(`there is no '${where}' to change with '${kind}'; it may be one of ${places.sort().join(", ")}`);
}

export function checkSearch(interventions: readonly Intervention[]): void {
  if (interventions.some(({ kind }) => kind === "mask"))
    throw new ModelError(
      "the intervention 'mask' has no effect on a search, which generates one token after the other and has no future " +
        "tokens: use it in a trace",
    );
}

/** Refuse a weight outside the attention map. Lengths include the end token; null: not known yet. */
export function checkCells(interventions: readonly Intervention[], nSrc: number, nTgt: number | null): void {
  const isUnmasked = interventions.some(({ kind }) => kind === "mask");
  for (const one of interventions) {
    if (one.kind !== "weight") continue;
    const isDecoder = !one.where.startsWith("encoder");
    const isOwn = isDecoder && !one.where.endsWith("cross");
    const places = [
      ["row", one.row, isDecoder ? nTgt : nSrc],
      ["column", one.column, isOwn ? nTgt : nSrc],
    ] as const;
    for (const [name, place, length] of places)
      if (!Number.isInteger(place) || place < 0 || (length !== null && place >= length))
        throw new ModelError(`there is no ${name} ${place} in ${one.where}: it has ${length}, numbered from 0`);
    if (!(one.value >= 0 && one.value <= 1)) throw new ModelError(`interventions.value = ${one.value} must be from 0 to 1`);
    if (isOwn && one.column > one.row && !isUnmasked)
      throw new ModelError(
        `row ${one.row} of ${one.where} cannot attend to column ${one.column}: the causal mask hides future tokens; add the ` +
          "intervention 'mask', or choose a column up to the row",
      );
  }
}
