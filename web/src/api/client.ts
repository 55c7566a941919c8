// The server's endpoints, one function each.
import { sliceFirstAxis, unpack, type ArrayBundle, type NumberArray } from "./arrays";
import { findTransport } from "./find";
import { ApiError } from "./transport";
import type {
  AttentionHistory,
  AttentionSummary,
  Beam,
  BeamBody,
  Block,
  BlockQuery,
  Effects,
  EffectsBody,
  Intervention,
  Line,
  Metrics,
  Models,
  Next,
  Runs,
  ScoredPiece,
  Segmentation,
  SummaryBody,
  TextBody,
  TextModels,
  TextReading,
  TokensBody,
  ToyBody,
  ToyStarted,
  TraceBody,
  TraceHeader,
  TranslateBody,
  Translation,
} from "./types";

export const transport = findTransport();
export { ApiError };

export type Question = Required<Pick<TranslateBody, "model" | "text" | "options" | "interventions">>;

function query(path: string, fields: Record<string, string | number | undefined>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  given.sort(([a], [b]) => (a < b ? -1 : 1));
  // Commas stay unescaped: the server's file export builds the same addresses.
  const text = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value)).replaceAll("%2C", ",")}`);
  return text.length ? `${path}?${text.join("&")}` : path;
}

async function json<Response>(method: "GET" | "POST", path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const response = await transport.request(method, path, body, signal);
  return JSON.parse(new TextDecoder().decode(response)) as Response;
}

export const models = (): Promise<Models> => json("GET", "/api/models");

export const tokens = (model: string, text: string, side: "src" | "tgt", signal?: AbortSignal): Promise<Segmentation> =>
  json("POST", "/api/tokens", { model, text, side } satisfies TokensBody, signal);

export const translate = (
  question: Question,
  n_best: number,
  prefix_ids: number[] | null,
  signal?: AbortSignal,
): Promise<Translation> => json("POST", "/api/translate", { ...question, n_best, prefix_ids } satisfies TranslateBody, signal);

/** As `translate`; `onPartial` receives the best hypothesis so far during the search. */
export async function translateStreaming(
  question: Question,
  n_best: number,
  onPartial: (tokens: ScoredPiece[]) => void,
  signal?: AbortSignal,
): Promise<Translation> {
  if (transport.isStatic) return translate(question, n_best, null, signal);
  let tokens: ScoredPiece[] = [];
  let translation: Translation | null = null;
  await transport.stream(
    "/api/translate/lines",
    { ...question, n_best } satisfies TranslateBody,
    (text) => {
      const line = JSON.parse(text) as Line;
      if ("error" in line) throw new ApiError(line.error, line.hint);
      if ("translation" in line) translation = line.translation;
      else onPartial((tokens = [...tokens.slice(0, line.kept), ...line.added]));
    },
    signal,
  );
  if (!translation) throw new ApiError("offline");
  return translation;
}

export const beam = (question: Question, prefix_ids: number[] | null, signal?: AbortSignal): Promise<Beam> =>
  json("POST", "/api/beam", { ...question, prefix_ids } satisfies BeamBody, signal);

export interface RawTrace {
  header: TraceHeader;
  arrays: Map<string, NumberArray>;
}

export async function trace(question: Question, tgt_ids: number[] | null, signal?: AbortSignal): Promise<RawTrace> {
  return unpack<TraceHeader>(await transport.request("POST", "/api/trace", { ...question, tgt_ids } satisfies TraceBody, signal));
}

/** One array of a trace in full precision. A file stores all heads together, so the head is selected here. */
export async function tensor(trace: string, path: string, head?: number): Promise<NumberArray> {
  const queryHead = transport.isStatic ? undefined : head;
  const body = await transport.request("GET", query(`/api/trace/${trace}/tensor`, { path, head: queryHead }), null);
  const [array] = unpack<object>(body).arrays.values();
  return transport.isStatic && head !== undefined ? sliceFirstAxis(array, head) : array;
}

const parameters = new Map<string, Promise<NumberArray>>();

/** A parameter, or some of its rows or columns. Parameters do not change, so responses are cached. */
export function parameter(
  model: string,
  name: string,
  part: { rows?: number[]; columns?: [number, number] } = {},
): Promise<NumberArray> {
  const fields = { name, rows: part.rows?.join(","), columns: part.columns?.join("-") };
  const path = query(`/api/models/${model}/parameter`, fields);
  let response = parameters.get(path);
  if (!response) {
    response = transport.request("GET", path, null).then((body) => [...unpack<object>(body).arrays.values()][0]);
    parameters.set(path, response);
    response.catch(() => parameters.delete(path));
  }
  return response;
}

export const next = (trace: string, step: number): Promise<Next> =>
  json("GET", query(`/api/trace/${trace}/next`, { step, k: 20 }));

export const block = (trace: string, side: BlockQuery["side"], layer: number, position: number): Promise<Block> =>
  json("GET", query(`/api/trace/${trace}/block`, { side, layer, position }));

/** How probable a translation remains under each of several sets of interventions. */
export const effects = (model: string, text: string, tgt_ids: number[], variants: Intervention[][], signal?: AbortSignal): Promise<Effects> =>
  json("POST", "/api/effects", { model, text, tgt_ids, variants } satisfies EffectsBody, signal);

export const attentionSummary = (trace: string): Promise<AttentionSummary> =>
  json("POST", "/api/attention-summary", { trace } satisfies SummaryBody);

export const runs = (): Promise<Runs> => json("GET", "/api/runs");

export const metrics = (run: string, after: number): Promise<Metrics> =>
  json("GET", query(`/api/runs/${encodeURIComponent(run)}/metrics`, { after }));

/** The snapshots after a step in the attention history of a run or of a model. */
export async function attentionHistory(of: "runs" | "models", name: string, after: number): Promise<ArrayBundle<AttentionHistory>> {
  return unpack<AttentionHistory>(
    await transport.request("GET", query(`/api/${of}/${encodeURIComponent(name)}/probes`, { after }), null),
  );
}

export const textModels = (): Promise<TextModels> => json("GET", "/api/texts");

/** A text in a language model or an encoder: its tokens, attention maps and predictions. */
export async function readText(model: string, text: string, signal?: AbortSignal): Promise<ArrayBundle<TextReading>> {
  return unpack<TextReading>(await transport.request("POST", "/api/text", { model, text } satisfies TextBody, signal));
}

export const toy = (task: ToyBody["task"], seconds: number): Promise<ToyStarted> =>
  json("POST", "/api/toy", { task, seconds } satisfies ToyBody);
