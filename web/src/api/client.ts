// Every question the page asks, one function each.
import { part, unpack, type NumberArray, type Parcel } from "./arrays";
import { findSource, Refusal } from "./source";
import type {
  Beam,
  Block,
  DecodeOptions,
  Film,
  HeadFigures,
  Intervention,
  Limits,
  Line,
  MetricsRow,
  Model,
  Next,
  Run,
  ScoredPiece,
  Tokens,
  ToyState,
  TraceHeader,
  Translation,
} from "./types";

export const source = findSource();
export { Refusal };

export interface Question {
  model: string;
  text: string;
  options: DecodeOptions;
  interventions: Intervention[];
}

function query(path: string, fields: Record<string, string | number | undefined>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  given.sort(([a], [b]) => (a < b ? -1 : 1));
  // Commas and dots stay as they are, so that an address can be read.
  const text = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value)).replaceAll("%2C", ",")}`);
  return text.length ? `${path}?${text.join("&")}` : path;
}

async function json<Answer>(method: "GET" | "POST", path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> {
  const answer = await source.ask(method, path, body, signal);
  return JSON.parse(new TextDecoder().decode(answer)) as Answer;
}

export const models = (): Promise<{ models: Model[]; limits: Limits }> => json("GET", "/api/models");

export const tokens = (model: string, text: string, side: "src" | "tgt", signal?: AbortSignal): Promise<Tokens> =>
  json("POST", "/api/tokens", { model, text, side }, signal);

export const translate = (
  question: Question,
  n_best: number,
  prefix_ids: number[] | null,
  signal?: AbortSignal,
): Promise<Translation> => json("POST", "/api/translate", { ...question, n_best, prefix_ids }, signal);

/** The same, and `hear` is told of what has been written so far. */
export async function translateWord(
  question: Question,
  n_best: number,
  hear: (written: ScoredPiece[]) => void,
  signal?: AbortSignal,
): Promise<Translation> {
  if (source.still) return translate(question, n_best, null, signal);
  let written: ScoredPiece[] = [];
  let found: Translation | null = null;
  await source.follow(
    "/api/translate/lines",
    { ...question, n_best },
    (text) => {
      const line = JSON.parse(text) as Line;
      if ("error" in line) throw new Refusal(line.error, line.hint);
      if ("translation" in line) found = line.translation;
      else hear((written = [...written.slice(0, line.kept), ...line.added]));
    },
    signal,
  );
  if (!found) throw new Refusal("offline");
  return found;
}

export const beam = (question: Question, prefix_ids: number[] | null, signal?: AbortSignal): Promise<Beam> =>
  json("POST", "/api/beam", { ...question, prefix_ids }, signal);

export interface RawTrace {
  header: TraceHeader;
  arrays: Map<string, NumberArray>;
}

export async function trace(question: Question, tgt_ids: number[] | null, signal?: AbortSignal): Promise<RawTrace> {
  return unpack<TraceHeader>(await source.ask("POST", "/api/trace", { ...question, tgt_ids }, signal));
}

/** One exact array of a trace. A file has them whole, and the head is cut out here. */
export async function tensor(trace: string, path: string, head?: number): Promise<NumberArray> {
  const cut = source.still ? undefined : head;
  const body = await source.ask("GET", query(`/api/trace/${trace}/tensor`, { path, head: cut }), null);
  const [whole] = unpack<object>(body).arrays.values();
  return source.still && head !== undefined ? part(whole, head) : whole;
}

const parameters = new Map<string, Promise<NumberArray>>();

/** A trained matrix, or some rows or columns of it. They do not change, so each is asked for once. */
export function parameter(
  model: string,
  name: string,
  some: { rows?: number[]; columns?: [number, number] } = {},
): Promise<NumberArray> {
  const fields = { name, rows: some.rows?.join(","), columns: some.columns?.join("-") };
  const path = query(`/api/models/${model}/parameter`, fields);
  let answer = parameters.get(path);
  if (!answer) {
    answer = source.ask("GET", path, null).then((body) => [...unpack<object>(body).arrays.values()][0]);
    parameters.set(path, answer);
    answer.catch(() => parameters.delete(path));
  }
  return answer;
}

export const next = (trace: string, step: number): Promise<Next> =>
  json("GET", query(`/api/trace/${trace}/next`, { step, k: 20 }));

export const block = (trace: string, side: string, layer: number, position: number): Promise<Block> =>
  json("GET", query(`/api/trace/${trace}/block`, { side, layer, position }));

export const attentionSummary = (trace: string): Promise<{ heads: HeadFigures[] }> =>
  json("POST", "/api/attention-summary", { trace });

export const runs = (): Promise<{ runs: Run[]; toy: ToyState | null }> => json("GET", "/api/runs");

export const metrics = (run: string, after: number): Promise<{ rows: MetricsRow[] }> =>
  json("GET", query(`/api/runs/${encodeURIComponent(run)}/metrics`, { after }));

/** The frames of a training after a step: a run's, or what a model remembers of its own. */
export async function film(of: "runs" | "models", name: string, after: number): Promise<Parcel<Film>> {
  return unpack<Film>(await source.ask("GET", query(`/api/${of}/${encodeURIComponent(name)}/probes`, { after }), null));
}

export const toy = (task: string, seconds: number): Promise<{ run: string }> =>
  json("POST", "/api/toy", { task, seconds });
