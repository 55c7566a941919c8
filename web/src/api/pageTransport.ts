// Answers from the page's own model, in a worker. What no model answers, and models that the page does not compute, are left
// to the server, if there is one.
import type { FromWorker, ToWorker } from "../model/worker";
import { TRACE_PREFIX } from "../model/requests";
import ModelWorker from "../model/worker?worker&inline";
import { ApiError, type GivenSentence, type Transport } from "./transport";
import type { Models } from "./types";

/** Where the page's models come from: the page's own file, a static site, or the server. */
export interface ModelSource {
  /** null: the server lists the models */
  models: Models | null;
  packed(id: string): Promise<ArrayBuffer>;
}

interface Waiting {
  done(answer: object | ArrayBuffer | null): void;
  failed(failure: Error): void;
  onLine?(line: string): void;
}

type Work = ToWorker extends infer One ? (One extends ToWorker ? Omit<One, "id"> : never) : never;

export class PageTransport implements Transport {
  readonly isStatic = false;
  readonly omitted = [];
  readonly hasServer: boolean;
  private worker: Worker | null = null;
  private requests = 0;
  private readonly waiting = new Map<number, Waiting>();
  private readonly loaded = new Map<string, Promise<unknown>>();
  private inPage = new Set<string>();

  constructor(
    private readonly source: ModelSource,
    private readonly server: Transport | null,
    readonly sentence: GivenSentence | null = null,
  ) {
    this.hasServer = server !== null;
  }

  computes(model: string): boolean {
    return this.inPage.has(model);
  }

  async request(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<ArrayBuffer> {
    if (path === "/api/models") return this.models(signal);
    const model = modelOf(path, body);
    if (model !== TRACE_PREFIX && !this.inPage.has(model)) return this.fromServer((server) => server.request(method, path, body, signal));
    if (model !== TRACE_PREFIX) await this.load(model);
    const answer = await this.ask({ kind: "answer", request: { method, path, body } }, signal);
    return answer instanceof ArrayBuffer ? answer : toJson(answer);
  }

  async stream(path: string, body: unknown, onLine: (line: string) => void, signal?: AbortSignal): Promise<void> {
    const model = modelOf(path, body);
    if (!this.inPage.has(model)) return this.fromServer((server) => server.stream(path, body, onLine, signal));
    await this.load(model);
    await this.ask({ kind: "stream", body }, signal, onLine);
  }

  private async models(signal?: AbortSignal): Promise<ArrayBuffer> {
    const body = this.source.models ? toJson(this.source.models) : await this.fromServer((server) => server.request("GET", "/api/models", null, signal));
    const { models } = JSON.parse(new TextDecoder().decode(body)) as Models;
    this.inPage = new Set(models.filter((model) => model.in_page).map((model) => model.id));
    return body;
  }

  private fromServer<Answer>(ask: (server: Transport) => Promise<Answer>): Promise<Answer> {
    if (!this.server) throw new ApiError("needs-server", "", 404);
    return ask(this.server);
  }

  /** A model is fetched when it is first needed. */
  private load(model: string): Promise<unknown> {
    let loading = this.loaded.get(model);
    if (!loading) {
      loading = this.source.packed(model).then((packed) => this.ask({ kind: "add", model, packed }));
      this.loaded.set(model, loading);
      loading.catch(() => this.loaded.delete(model));
    }
    return loading;
  }

  private ask(work: Work, signal?: AbortSignal, onLine?: (line: string) => void): Promise<object | ArrayBuffer | null> {
    const worker = (this.worker ??= this.start());
    const id = this.requests++;
    return new Promise((done, failed) => {
      if (signal?.aborted) return failed(signal.reason as Error);
      this.waiting.set(id, { done, failed, onLine });
      signal?.addEventListener("abort", () => {
        this.waiting.delete(id);
        worker.postMessage({ id, kind: "cancel" } satisfies ToWorker);
        failed(signal.reason as Error);
      });
      worker.postMessage({ ...work, id }, work.kind === "add" ? [work.packed] : []);
    });
  }

  private start(): Worker {
    const worker = new ModelWorker();
    worker.onmessage = ({ data }: MessageEvent<FromWorker>): void => {
      const waiting = this.waiting.get(data.id);
      if (!waiting) return; // aborted
      if (data.kind === "line") return waiting.onLine?.(JSON.stringify(data.line));
      this.waiting.delete(data.id);
      if (data.kind === "answer") waiting.done(data.answer);
      else waiting.failed(new ApiError(data.message, data.hint, data.status));
    };
    worker.onerror = (event): void => {
      this.waiting.forEach(({ failed }) => failed(new ApiError(event.message || "worker")));
      this.waiting.clear();
    };
    return worker;
  }
}

/** The model that a request is about; TRACE_PREFIX: the page computed the trace that it is about; "": none. */
function modelOf(path: string, body: unknown): string {
  const { model, trace } = (body ?? {}) as { model?: string; trace?: string };
  const [, kind, name] = /^\/api\/(models|trace)\/([^/]+)\//.exec(path) ?? [];
  const ofTrace = trace ?? (kind === "trace" ? name : undefined);
  if (ofTrace !== undefined) return ofTrace.startsWith(TRACE_PREFIX) ? TRACE_PREFIX : "";
  if (kind === "models") return path.includes("/parameter?") ? decodeURIComponent(name) : "";
  return model ?? "";
}

function toJson(value: object | null): ArrayBuffer {
  return new TextEncoder().encode(JSON.stringify(value)).buffer;
}
