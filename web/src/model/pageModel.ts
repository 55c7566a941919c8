// A model that the page computes itself, and what the explorer asks about a sentence: the answers are those of the server
// (inspect/explorer.py).
import type { Alternative, Beam, DecodeConfig, DecodeOptions, Intervention, Limits, Model, Piece, ScoredPiece, Segmentation, Translation } from "../api/types";
import { unpack } from "../api/arrays";
import { checkConfig, ModelError } from "./config";
import { beamSearch, type BeamStep } from "./decode/beam";
import type { Hypothesis } from "./decode/hypotheses";
import { BeamTree } from "./inspect/beamTree";
import { checkCells, checkSearch, intervened } from "./inspect/interventions";
import { TracedPassage, type Passage } from "./inspect/passage";
import { pack } from "./inspect/wire";
import { width, type Tensor } from "./tensor";
import { segment } from "./tokenizer/segmentation";
import { BOS, EOS, PAD, SentencePieceModel } from "./tokenizer/sentencePiece";
import { Transformer } from "./transformer";
import { readWeights } from "./weights";

/** The header of a packed model (inspect/packed_model.py). Its arrays are the files of the model's folder. */
interface PackedModel {
  format: number;
  model: Model;
  limits: Limits;
  lowercase: boolean;
  /** What characters are folded to. */
  folding: Record<string, string>;
}

const FORMAT = 1;
const MAX_NUMBERS = 1 << 22;
const MAX_ROWS = 2048;

export interface Question {
  text: string;
  options: DecodeOptions;
  prefixIds: number[];
  interventions: Intervention[];
}

export class PageModel {
  readonly model: Transformer;
  readonly src: SentencePieceModel;
  readonly tgt: SentencePieceModel;
  private readonly description: Model;
  private readonly limits: Limits;
  private readonly lowercase: boolean;
  private readonly parameters: ReadonlyMap<string, Tensor>;

  constructor(packed: ArrayBuffer) {
    const { header, arrays } = unpack<PackedModel>(packed);
    if (header.format !== FORMAT)
      throw new ModelError(`this model is packed in format ${header.format}, and this page reads format ${FORMAT}`, "write the page or the site again");
    const file = (name: string): Uint8Array | undefined => arrays.get(name)?.values as Uint8Array | undefined;
    const weights = readWeights(file("weights.safetensors")!);
    this.parameters = weights.byName;
    this.model = new Transformer(checkConfig(header.model.config as unknown as Record<string, unknown>), weights);
    const folding = new Map(Object.entries(header.folding));
    const joint = file("tokenizer.model");
    this.src = new SentencePieceModel(joint ?? file("source.model")!, folding);
    this.tgt = joint ? this.src : new SentencePieceModel(file("target.model")!, folding);
    this.description = header.model;
    this.limits = header.limits;
    this.lowercase = header.lowercase;
  }

  pieces(side: "src" | "tgt", ids: number[]): Piece[] {
    return ids.map((id) => ({ id, piece: this[side].piece(id) }));
  }

  // -- text

  /** How the tokenizer segments a text, merge by merge. */
  tokens(text: string, side: "src" | "tgt"): Segmentation {
    this.checkText(text);
    return segment(this[side], text, this.lowercase);
  }

  private checkText(text: string): void {
    const length = [...text].length;
    if (length > this.limits.characters)
      throw new ModelError(
        `the text has ${length.toLocaleString("en")} characters; the explorer accepts up to ${this.limits.characters.toLocaleString("en")}`,
      );
  }

  private sourceIds(text: string): number[] {
    this.checkText(text);
    const ids = this.src.encode(this.lowercase ? text.toLowerCase() : text);
    this.checkLength(ids, "the text");
    return ids;
  }

  private get maxPieces(): number {
    return Math.min(this.limits.pieces, (this.model.longestTarget ?? Infinity) - 1);
  }

  private checkLength(ids: number[], what: string): void {
    if (ids.length > this.maxPieces) throw new ModelError(`${what} has ${ids.length} pieces; the explorer accepts up to ${this.maxPieces}`);
  }

  private checkTargetIds(ids: number[], what: string): void {
    for (const [name, special] of [["padding", PAD], ["begin", BOS], ["end", EOS]] as const) // prettier-ignore
      if (ids.includes(special)) throw new ModelError(`${what} contains the ${name} token (id ${special}); give the ids of the text only`);
    const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= this.tgt.size);
    if (wrong !== undefined) throw new ModelError(`${what} has the id ${wrong}; the ids of the vocabulary are 0 to ${this.tgt.size - 1}`);
    this.checkLength(ids, what);
  }

  // -- search

  private decodeConfig(question: Question, nBest: number): DecodeConfig {
    const config = { ...this.description.decode, ...question.options };
    if (config.method !== "beam")
      throw new ModelError(`the page's own model does not support decode.method = '${config.method}'; it supports beam`);
    if (config.beam_rule !== "paper" && config.beam > 1)
      throw new ModelError(`the page's own model does not support decode.beam_rule = '${config.beam_rule}'; it supports paper`);
    for (const [name, value, most] of [["beam", config.beam, this.limits.beam], ["n_best", nBest, this.limits.n_best]] as const) // prettier-ignore
      if (!(Number.isInteger(value) && value >= 1 && value <= most))
        throw new ModelError(`${name} = ${value} is not possible here; it may be from 1 to ${most}`);
    if (!(config.length_penalty >= 0)) throw new ModelError(`decode.length_penalty = ${config.length_penalty} must be at least 0`);
    return config;
  }

  private async search(
    question: Question,
    config: DecodeConfig,
    nBest: number,
    observe: (step: BeamStep) => Promise<void> | void,
  ): Promise<Hypothesis[]> {
    const src = this.sourceIds(question.text);
    const { prefixIds: prefix } = question;
    this.checkTargetIds(prefix, "the prefix");
    checkCells(question.interventions, src.length + 1, null);
    if (!src.length) return [{ ids: [], score: 0, logProb: 0, tokenLogProbs: [], finished: false }];
    const most = this.maxPieces - prefix.length; // so that the translation can be traced
    if (most < 1) throw new ModelError(`the prefix has ${prefix.length} pieces; the most is ${this.maxPieces - 1}`);
    const ownLength = Math.floor(config.max_length_ratio * src.length) + config.max_length_extra;
    const options = {
      beam: config.beam,
      lengthPenalty: config.length_penalty,
      maxLength: Math.min(ownLength, most) + prefix.length,
      nBest: Math.min(nBest, config.beam),
      noRepeatNgram: config.no_repeat_ngram,
      prefix,
    };
    const inSearch = question.interventions.filter(({ kind }) => kind !== "mask");
    return intervened(this.model, inSearch, () => beamSearch(this.model, [...src, EOS], options, observe));
  }

  /** `onPartial` is called with the best hypothesis at each step. */
  async translate(question: Question, nBest: number, onPartial: (best: ScoredPiece[]) => Promise<void> | void = () => {}): Promise<Translation> {
    checkSearch(question.interventions);
    const config = this.decodeConfig(question, nBest);
    const found = await this.search(question, config, nBest, ({ taken, kept }) => {
      if (!kept.length) return;
      const { ids, logProbs } = taken[kept[0]].hypothesis;
      return onPartial(this.scoredPieces(ids, logProbs));
    });
    const src = this.pieces("src", this.sourceIds(question.text));
    return { source: question.text, src, alternatives: found.map((one) => this.alternative(one)) };
  }

  /** The tree of a beam search, with the translations it found. */
  async beam(question: Question, nBest: number | null, pause: () => Promise<void> = async () => {}): Promise<Beam> {
    checkSearch(question.interventions);
    const config = this.decodeConfig(question, nBest ?? 1);
    const tree = new BeamTree(config.length_penalty);
    const found = await this.search(question, config, nBest ?? config.beam, (step) => {
      tree.observe(step);
      return pause();
    });
    const ends = tree.finish(found);
    return {
      nodes: tree.nodes.map((node) => ({ ...node, piece: this.tgt.piece(node.id) })),
      left_out: tree.leftOut,
      beam: config.beam,
      length_penalty: config.length_penalty,
      beam_rule: config.beam_rule,
      alternatives: found.map((one, index) => ({ ...this.alternative(one), node: ends[index] })),
    };
  }

  private alternative({ ids, score, logProb, tokenLogProbs, finished }: Hypothesis): Alternative {
    const tokens = this.scoredPieces(finished ? [...ids, EOS] : ids, tokenLogProbs);
    return { text: this.tgt.decode(ids), score, log_prob: logProb, finished, tokens };
  }

  private scoredPieces(ids: number[], logProbs: number[]): ScoredPiece[] {
    return this.pieces("tgt", ids).map((piece, index) => ({ ...piece, log_prob: logProbs[index] }));
  }

  // -- trace

  /** The passage over this translation, or over the one that a search finds. */
  async passage(question: Question, tgtIds: number[] | null): Promise<Passage> {
    const srcIds = this.sourceIds(question.text);
    if (tgtIds === null) [{ ids: tgtIds }] = await this.search(question, this.decodeConfig(question, 1), 1, () => {});
    else if (tgtIds.at(-1) === EOS) tgtIds = tgtIds.slice(0, -1);
    this.checkTargetIds(tgtIds, "the translation");
    checkCells(question.interventions, srcIds.length + 1, tgtIds.length + 1);
    return { text: question.text, srcIds, tgtIds, interventions: question.interventions };
  }

  trace(passage: Passage): Promise<TracedPassage> {
    return TracedPassage.run(this, passage);
  }

  // -- the model

  /** A parameter; `rows` such as "3,17,4" are returned in this order, `columns` such as "64-128" exclude the last. */
  parameter(name: string, rows: string | null, columns: string | null): ArrayBuffer {
    let value = this.find(name);
    if (rows !== null) value = selectRows(value, name, rows.split(","));
    if (columns !== null) value = selectColumns(value, name, columns);
    if (value.values.length > MAX_NUMBERS) throw new ModelError(`${name} has ${value.values.length} numbers, too many to send; request some of its rows`);
    return pack({ parameter: name, rows, columns }, new Map([[name, value]]));
  }

  private find(name: string): Tensor {
    const shared: Record<string, Tensor> = { "src_embedding.weight": this.model.embeddings.src, "output.weight": this.model.embeddings.output };
    const found = this.parameters.get(name) ?? shared[name];
    if (!found) throw new ModelError(`this model has no parameter '${name}'; the names are those in its weights.safetensors`);
    return found;
  }
}

function selectRows(value: Tensor, name: string, rows: string[]): Tensor {
  if (rows.length > MAX_ROWS) throw new ModelError(`${rows.length} rows are too many; the most is ${MAX_ROWS}`);
  const wrong = rows.find((row) => !/^\d+$/.test(row) || Number(row) >= value.shape[0]);
  if (wrong !== undefined) throw new ModelError(`${name} has no row '${wrong}': it has ${value.shape[0]}, numbered from 0; separate rows by commas`);
  const size = value.values.length / value.shape[0];
  const values = new Float32Array(rows.length * size);
  rows.forEach((row, index) => values.set(value.values.subarray(Number(row) * size, (Number(row) + 1) * size), index * size));
  return { shape: [rows.length, ...value.shape.slice(1)], values };
}

function selectColumns(value: Tensor, name: string, columns: string): Tensor {
  const n = width(value);
  const [first, end] = /^\d+-\d+$/.test(columns) ? columns.split("-").map(Number) : [0, 0];
  if (!(first < end && end <= n)) throw new ModelError(`${name} has no columns '${columns}': it has ${n}, numbered from 0`);
  const nRows = value.values.length / n;
  const values = new Float32Array(nRows * (end - first));
  for (let row = 0; row < nRows; row++) values.set(value.values.subarray(row * n + first, row * n + end), row * (end - first));
  return { shape: [...value.shape.slice(0, -1), end - first], values };
}
