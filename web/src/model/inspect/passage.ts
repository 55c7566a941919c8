// A sentence and its translation, passed through the model once with every tap recorded, and the questions about the numbers
// inside (inspect/passage.py).
import type { AttentionSummary, Block, BlockQuery, Intervention, Next, PredictedPiece, TraceHeader } from "../../api/types";
import { ModelError } from "../config";
import { entry, sizeOf, softmax, type Tensor } from "../tensor";
import { BOS, EOS } from "../tokenizer/sentencePiece";
import type { PageModel } from "../pageModel";
import { embeddedTap, mostActive, norm, stages } from "./blocks";
import { headFigures } from "./heads";
import { intervened } from "./interventions";
import { predict, type Likely, type Prediction } from "./prediction";
import { pack, type Bytes } from "./wire";

const HEAD_FIRST = new Set(["q", "k", "v", "scores", "weights", "head_out"]);
const LENS_TOKENS = 5;
const UNITS = 12;

export interface Passage {
  text: string;
  /** Without the end token, as those of the translation. */
  srcIds: number[];
  tgtIds: number[];
  interventions: Intervention[];
}

export class TracedPassage {
  private constructor(
    private readonly owner: PageModel,
    private readonly passage: Passage,
    /** Of every tap, without the axis of rows. */
    private readonly values: ReadonlyMap<string, Tensor>,
  ) {}

  /** Pass the passage through the model, with its interventions in effect. */
  static async run(owner: PageModel, passage: Passage): Promise<TracedPassage> {
    const { model } = owner;
    const values = new Map<string, Tensor>();
    await intervened(model, passage.interventions, () => {
      const hooks = model.taps.paths.map((path) => [path, (x: Tensor) => void values.set(path, entry(x, 0))] as const);
      const detach = model.taps.attach(hooks);
      try {
        model.forward([...passage.srcIds, EOS], [BOS, ...passage.tgtIds]);
      } finally {
        detach();
      }
    });
    return new TracedPassage(owner, passage, values);
  }

  /** Bytes of the recorded values. */
  get size(): number {
    return [...this.values.values()].reduce((sum, { values }) => sum + values.byteLength, 0);
  }

  private get wanted(): number[] {
    return [...this.passage.tgtIds, EOS];
  }

  /** The log-probability of each token of the translation. */
  get logProbs(): number[] {
    const logits = this.values.get("logits")!;
    return this.wanted.map((id, step) => {
      const { values } = entry(logits, step);
      const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
      return values[id] - most - Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0));
    });
  }

  /** The pieces, every attention map in 8 bits, and the shapes of all taps. */
  overview(name: string): ArrayBuffer {
    const { passage, owner, wanted } = this;
    const probabilities = softmax(this.values.get("logits")!);
    const header: TraceHeader = {
      trace: name,
      kernel: "reference",
      text: passage.text,
      translation: owner.tgt.decode(passage.tgtIds),
      src: owner.pieces("src", [...passage.srcIds, EOS]),
      tgt: owner.pieces("tgt", wanted).map((piece, step) => ({ ...piece, probability: entry(probabilities, step).values[piece.id] })),
      interventions: passage.interventions,
      taps: Object.fromEntries([...this.values].map(([path, { shape }]) => [path, shape])),
    };
    const maps = [...this.values].filter(([path]) => path.endsWith("weights"));
    return pack(header, new Map(maps.map(([path, value]) => [path, toBytes(value)])));
  }

  /** The exact value of one tap. */
  tensor(path: string, head: number | null): ArrayBuffer {
    let value = this.values.get(path);
    if (!value) throw new ModelError(`there is no tap '${path}'; \`taps\` in the trace lists them all`);
    if (head !== null) {
      if (!HEAD_FIRST.has(path.slice(path.lastIndexOf(".") + 1)))
        throw new ModelError(`${path} is not split into heads; request it without \`head\``);
      if (!(head >= 0 && head < value.shape[0])) throw new ModelError(`${path} has no head ${head}: it has ${value.shape[0]}, numbered from 0`);
      value = entry(value, head);
    }
    return pack({ path, head }, new Map([[path, value]]));
  }

  /** The prediction of the token at `step`, and that of each decoder layer by the logit lens. */
  next(step: number, k: number): Next {
    const { wanted } = this;
    if (!(step >= 0 && step < wanted.length)) throw new ModelError(`there is no step ${step}: the translation has ${wanted.length}, numbered from 0`);
    const predicted = predict(entry(this.values.get("logits")!, step).values, wanted[step], k);
    return {
      step,
      top: this.predictedPieces(predicted.top),
      entropy: predicted.entropy,
      chosen: { ...this.predictedPieces([predicted.chosen])[0], rank: predicted.rank },
      lens: this.lens(step, wanted[step]).map((one, layer) => ({
        layer,
        top: this.predictedPieces(one.top),
        entropy: one.entropy,
        chosen_rank: one.rank,
        chosen_probability: one.chosen.probability,
      })),
    };
  }

  /** What the model would predict if a decoder layer were the last, for each. */
  private lens(step: number, chosen: number): Prediction[] {
    const { model } = this.owner;
    const tap = model.config.norm_order === "pre" ? "resid" : "normed";
    return Array.from({ length: model.config.n_decoder_layers }, (_, layer) => {
      const stream_D = entry(this.values.get(`decoder.${layer}.around_ffn.${tap}`)!, step);
      const logits = model.unembed(model.finish({ shape: [1, 1, sizeOf(stream_D.shape)], values: stream_D.values }));
      return predict(logits.values, chosen, LENS_TOKENS);
    });
  }

  private predictedPieces(candidates: Likely[]): PredictedPiece[] {
    return candidates.map(({ id, probability, logit }) => ({ id, piece: this.owner.tgt.piece(id), probability, logit }));
  }

  /** The residual stream of one token through the encoder or the decoder, and the most active units of a layer. */
  block({ side, layer, position }: BlockQuery): Block {
    const { config } = this.owner.model;
    const nLayers = side === "encoder" ? config.n_encoder_layers : config.n_decoder_layers;
    const embedded = this.values.get(embeddedTap(side))!;
    const limits = [
      ["layer", layer, nLayers],
      ["position", position, embedded.shape[0]],
    ] as const;
    for (const [name, value, count] of limits)
      if (!(value >= 0 && value < count)) throw new ModelError(`there is no ${name} ${value} in the ${side}: it has ${count}, numbered from 0`);
    return {
      side,
      layer,
      position,
      embedded: norm(entry(embedded, position).values),
      stages: stages(this.values, side, nLayers, position, config.norm_order === "pre"),
      units: mostActive(this.values, side, layer, position, UNITS),
    };
  }

  /** Statistics of every head, to sort them by. */
  summary(): AttentionSummary {
    const maps = [...this.values].filter(([path]) => path.endsWith(".weights"));
    const mean_LM = meanMap(maps.filter(([path]) => path.endsWith(".cross.weights")).map(([, value]) => value));
    const heads = maps.flatMap(([path, value]) => {
      const where = path.slice(0, -".weights".length);
      return headFigures(value, where, where.endsWith(".cross") ? mean_LM : null);
    });
    return { heads };
  }
}

/** Weights in 8 bits, 255 meaning 1; halves are rounded to even, as in Python. */
function toBytes({ shape, values }: Tensor): Bytes {
  return { shape, values: Uint8Array.from(values, (weight) => rint(Math.fround(weight * 255))) };
}

function rint(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

/** The mean over all heads of these maps. */
function meanMap(maps_HLM: Tensor[]): Float64Array {
  const [H, L, M] = maps_HLM[0].shape;
  const mean_LM = new Float64Array(L * M);
  for (const { values } of maps_HLM) values.forEach((weight, i) => (mean_LM[i % (L * M)] += weight / (H * maps_HLM.length)));
  return mean_LM;
}

