// The server's endpoints about a model and a sentence, answered by a model in the page. Requests and answers are those of
// the server, so that the panels need not know who computes.
import type { BeamBody, BlockQuery, Effects, EffectsBody, Intervention, Line, SummaryBody, TokensBody, TraceBody, TranslateBody } from "../api/types";
import { ModelError } from "./config";
import type { Passage, TracedPassage } from "./inspect/passage";
import { PageModel, type Question } from "./pageModel";

export interface Request {
  method: "GET" | "POST";
  /** With its query. */
  path: string;
  body: unknown;
}

/** Before the names of traces that the page computes. */
export const TRACE_PREFIX = "page-";
const MAX_TRACE_BYTES = 256 << 20;

interface CachedTrace {
  model: string;
  passage: Passage;
  traced: TracedPassage | null;
}

/** Called between the steps of a long answer; it raises if the answer is no longer wanted. */
export type Pause = () => Promise<void>;

/** Answers about several models, one request at a time: interventions change a model while they are in effect. */
export class Answers {
  private readonly models = new Map<string, PageModel>();
  private readonly traces = new Map<string, CachedTrace>();

  add(id: string, packed: ArrayBuffer): void {
    this.models.set(id, new PageModel(packed));
  }

  /** An object that is sent as JSON, or a binary body. */
  async answer({ method, path, body }: Request, pause: Pause = async () => {}): Promise<object | ArrayBuffer> {
    const [place, search = ""] = path.split("?");
    const query = new URLSearchParams(search);
    const parts = place.split("/").slice(2).map(decodeURIComponent); // without "" and "api"
    switch (`${method} ${parts.length === 3 ? `${parts[0]}/…/${parts[2]}` : parts[0]}`) {
      case "POST tokens": {
        const { model, text, side = "src" } = body as TokensBody;
        return this.model(model).tokens(text, side);
      }
      case "POST translate": {
        const { model, n_best = 1 } = body as TranslateBody;
        return this.model(model).translate(questionOf(body), n_best, pause);
      }
      case "POST beam": {
        const { model, n_best = null } = body as BeamBody;
        return this.model(model).beam(questionOf(body), n_best, pause);
      }
      case "POST trace":
        return this.trace(body as TraceBody);
      case "POST effects":
        return this.effects(body as EffectsBody, pause);
      case "POST attention-summary":
        return (await this.traced((body as SummaryBody).trace)).summary();
      case "GET models/…/parameter":
        return this.model(parts[1]).parameter(query.get("name") ?? "", query.get("rows"), query.get("columns"));
      case "GET trace/…/tensor":
        return (await this.traced(parts[1])).tensor(query.get("path") ?? "", query.has("head") ? Number(query.get("head")) : null);
      case "GET trace/…/next":
        return (await this.traced(parts[1])).next(Number(query.get("step")), Number(query.get("k") ?? 20));
      case "GET trace/…/block": {
        const [layer, position] = [Number(query.get("layer")), Number(query.get("position"))];
        return (await this.traced(parts[1])).block({ side: query.get("side") as BlockQuery["side"], layer, position });
      }
      default:
        throw new ModelError(`the page's own model does not answer ${method} ${place}`, "", 404);
    }
  }

  /** A translation whose best hypothesis is sent at each step, as a change to the one before. */
  async stream(body: unknown, send: (line: Line) => Promise<void> | void): Promise<void> {
    const { model, n_best = 1 } = body as TranslateBody;
    let before: number[] = [];
    const translation = await this.model(model).translate(questionOf(body), n_best, (best) => {
      const ids = best.map(({ id }) => id);
      const changed = ids.findIndex((id, index) => id !== before[index]);
      const kept = changed < 0 ? Math.min(ids.length, before.length) : changed;
      before = ids;
      return send({ kept, added: best.slice(kept) });
    });
    await send({ translation });
  }

  private model(id = "0"): PageModel {
    const found = this.models.get(id);
    if (!found) throw new ModelError(`there is no model '${id}'`, `the models are ${[...this.models.keys()].join(", ")}`, 404);
    return found;
  }

  private async trace(body: TraceBody): Promise<ArrayBuffer> {
    const model = body.model ?? "0";
    const passage = await this.model(model).passage(questionOf(body), body.tgt_ids ?? null);
    const known = JSON.stringify([model, passage]);
    const same = [...this.traces].find(([, one]) => JSON.stringify([one.model, one.passage]) === known);
    const name = same?.[0] ?? `${TRACE_PREFIX}${this.traces.size}`;
    if (!same) this.traces.set(name, { model, passage, traced: null });
    return (await this.traced(name)).overview(name);
  }

  /** How probable a translation remains under each of several sets of interventions. */
  private async effects({ model: id, text, tgt_ids, variants = [] }: EffectsBody, pause: Pause): Promise<Effects> {
    const model = this.model(id);
    const logProbs = async (interventions: Intervention[]): Promise<number[]> => {
      const passage = await model.passage({ text, options: {}, prefixIds: [], interventions }, tgt_ids);
      return (await model.trace(passage)).logProbs;
    };
    const after: number[][] = [];
    const before = await logProbs([]);
    for (const variant of variants) {
      await pause();
      after.push(await logProbs(variant));
    }
    return { before, after };
  }

  /** A trace by its name; its values are computed again if they had to make room for others. */
  private async traced(name: string): Promise<TracedPassage> {
    const found = this.traces.get(name);
    if (!found) throw new ModelError(`there is no trace '${name}'`, "request the trace of the sentence again", 404);
    if (!found.traced) {
      found.traced = await this.model(found.model).trace(found.passage);
      this.makeRoom(found);
    }
    return found.traced;
  }

  /** Forget the values of the oldest traces, but not of this one. */
  private makeRoom(latest: CachedTrace): void {
    let bytes = [...this.traces.values()].reduce((sum, { traced }) => sum + (traced?.size ?? 0), 0);
    for (const one of this.traces.values()) {
      if (bytes <= MAX_TRACE_BYTES || one === latest) continue;
      bytes -= one.traced?.size ?? 0;
      one.traced = null;
    }
  }
}

function questionOf(body: unknown): Question {
  const { text, options = {}, prefix_ids, interventions = [] } = body as TranslateBody;
  return { text, options, prefixIds: prefix_ids ?? [], interventions };
}
