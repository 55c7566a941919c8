// The state of the page: the model, the sentence, its translation and trace, and what is selected.
import * as api from "../api/client";
import type { Intervention, Limits, Model, ScoredPiece, TextModel, Translation } from "../api/types";
import * as address from "./address";
import type { AttentionKind } from "./attention";
import { isSpecial } from "../format/words";
import { examplesOf, knownScript, reads } from "./languages";
import type { Panel } from "./panels";
import { idsOf, Trace } from "./trace";

/** A translation and its trace, with the interventions that were active. */
export interface TracedTranslation {
  translation: Translation;
  trace: Trace;
  interventions: Intervention[];
}

/** `message` is the server's, or the last part of an `error.` message key. */
export interface ErrorInfo {
  message: string;
  hint: string;
}

export function errorInfo(failure: unknown): ErrorInfo {
  if (failure instanceof api.ApiError) return { message: failure.message, hint: failure.hint };
  return { message: failure instanceof Error ? failure.message : String(failure), hint: "" };
}

class Session {
  models = $state.raw<Model[]>([]);
  /** Language models and encoders, which translate nothing. */
  textModels = $state.raw<TextModel[]>([]);
  limits = $state.raw<Limits>({ characters: 2000, pieces: 512, beam: 16, n_best: 16 });
  view = $state<address.Address>(structuredClone(address.HOME));
  /** The content of the text box, which may not have been translated yet. */
  draft = $state("");
  busy = $state(false);
  /** The best hypothesis so far, while a search is running. */
  partial = $state.raw<ScoredPiece[]>([]);
  error = $state.raw<ErrorInfo | null>(null);
  /** Without interventions. */
  original = $state.raw<TracedTranslation | null>(null);
  /** With the active interventions; null when there are none. */
  modified = $state.raw<TracedTranslation | null>(null);
  /** The original translation, teacher-forced through the modified model. */
  forced = $state.raw<Trace | null>(null);
  /** A lesson fills the screen. */
  slides = $state(false);
  /** The side of the token that was selected last. */
  picked = $state<"src" | "tgt">("tgt");
  private pending: AbortController | null = null;

  get model(): Model | null {
    const wanted = this.view.model;
    const found = this.models.find((model) => model.id === wanted) ?? this.models.find((model) => model.name === wanted);
    return found ?? this.models[0] ?? null;
  }

  get current(): TracedTranslation | null {
    return this.modified ?? this.original;
  }

  get trace(): Trace | null {
    return this.current?.trace ?? null;
  }

  get isStatic(): boolean {
    return api.transport.isStatic;
  }

  get hasServer(): boolean {
    return api.transport.hasServer;
  }

  /** Who computes the model. */
  get computedBy(): "page" | "server" | "file" | null {
    if (!this.model) return null;
    if (this.isStatic) return "file";
    return api.transport.computes(this.model.id) ? "page" : "server";
  }

  async start(): Promise<void> {
    this.view = address.read(location.hash);
    try {
      const found = await api.models();
      // Before the models are there: from then on the view is written to the address.
      if (this.hasServer) this.textModels = (await api.textModels()).models;
      this.models = found.models;
      this.limits = found.limits;
    } catch (failure) {
      this.error = errorInfo(failure);
      return;
    }
    const [first] = this.model ? examplesOf(this.model) : [];
    // The page opens on a translated sentence.
    if (first && !location.hash.slice(1)) Object.assign(this.view, { panel: "overview", text: first });
    if (!this.models.length && this.textModels.length) this.view.panel = "texts";
    const given = api.transport.sentence;
    // A file with a model opens links too; one with a single sentence shows nothing else.
    if (given && (this.isStatic || !location.hash.slice(1))) Object.assign(this.view, { ...given, interventions: [] });
    await this.showAddress();
  }

  /** The URL changed: a link was followed, or the browser's back or forward button was pressed. */
  async onAddressChange(): Promise<void> {
    const before = this.queryKey();
    this.view = address.read(location.hash);
    if (this.queryKey() === before) {
      this.clampSelection();
      return;
    }
    this.reset();
    await this.showAddress();
  }

  /** Without a model in the address, one that can read the text is chosen. */
  private async showAddress(): Promise<void> {
    this.draft = this.view.text;
    if (!this.view.model && !this.isStatic) this.view.model = this.modelFor(this.view.text)?.name ?? "";
    if (this.view.text) await this.run();
  }

  /** Cancel the pending request and discard results, which belong to another query. */
  private reset(): void {
    this.pending?.abort();
    this.pending = null;
    this.busy = false;
    this.partial = [];
    this.error = null;
    this.original = this.modified = this.forced = null;
  }

  /** Two views with the same key have the same translation and trace. */
  private queryKey(): string {
    const { model, text, tgt, options, interventions } = this.view;
    return JSON.stringify([model, text, tgt, options, interventions]);
  }

  open(panel: Panel): void {
    this.view.panel = panel;
    this.view.lesson = null;
  }

  /** Another model for a text that the current one cannot read: the one for the opposite direction first. */
  modelFor(text: string): Model | null {
    const now = this.model;
    if (!now || reads(now, text)) return null;
    const able = this.models.filter((model) => model !== now && reads(model, text) && knownScript(model));
    return able.find((model) => model.src_lang === now.tgt_lang) ?? able[0] ?? null;
  }

  async translate(): Promise<void> {
    const other = this.modelFor(this.draft);
    if (other) this.selectModel(other);
    this.view.text = this.draft.trim();
    this.view.tgt = null;
    this.view.cell = null;
    this.view.step = 0;
    this.view.position = 0;
    if (this.view.text) await this.run();
  }

  /** Reload the list: when a training run finishes, its model is added. */
  async findModels(): Promise<void> {
    this.models = (await api.models()).models;
  }

  /** The text stays in the box; it is translated at once if the model can read it. */
  async choose(model: Model): Promise<void> {
    const isReadable = model.src_lang === this.model?.src_lang || (knownScript(model) && reads(model, this.draft));
    this.selectModel(model);
    if (!isReadable) this.view.text = "";
    else if (this.draft.trim()) this.view.text = this.draft.trim();
    if (this.view.text) await this.run();
    else this.open("translate");
  }

  private selectModel(model: Model): void {
    this.reset();
    // Links use the model's name where it is unique, otherwise its id.
    const named = this.models.filter((one) => one.name === model.name);
    this.view.model = named.length === 1 ? model.name : model.id;
    this.view.interventions = [];
    this.view.options = {};
    this.view.tgt = null;
    this.view.layer = 0;
    this.view.head = 0;
    this.view.cell = null;
  }

  /** Trace another translation of the same sentence; null: the best one. */
  async selectTranslation(ids: number[] | null): Promise<void> {
    this.view.tgt = ids;
    this.view.step = 0;
    this.view.cell = null;
    await this.run();
  }

  /** Translate this text with this model, unless that is what is shown. */
  async ask(model: Model, text: string, options: address.Address["options"]): Promise<void> {
    const isShown = this.original !== null && this.model === model && this.view.text === text && JSON.stringify(this.view.options) === JSON.stringify(options);
    if (isShown) return;
    if (this.model !== model) this.selectModel(model);
    Object.assign(this.view, { text, options, interventions: [], tgt: null, step: 0, position: 0, cell: null });
    this.draft = text;
    await this.run();
  }

  setSlides(on: boolean): void {
    if (on === this.slides) return;
    this.slides = on;
    // A page inside a frame may not fill the screen; it still shows the slide alone.
    if (on) document.documentElement.requestFullscreen?.().catch(() => undefined);
    else if (document.fullscreenElement) void document.exitFullscreen();
  }

  async setInterventions(interventions: Intervention[]): Promise<void> {
    this.view.interventions = interventions;
    if (this.view.text) await this.run(this.original);
  }

  /** Translate and trace. `original` is reused when only the interventions have changed. */
  private async run(original: TracedTranslation | null = null): Promise<void> {
    this.pending?.abort();
    const run = (this.pending = new AbortController());
    this.busy = true;
    this.partial = [];
    this.error = null;
    try {
      // A snapshot: selections made during the requests do not affect them.
      const question = this.question($state.snapshot(this.view.interventions) as Intervention[]);
      const unmodified = { ...question, interventions: [] };
      const found = original ?? (await this.translateAndTrace(unmodified, $state.snapshot(this.view.tgt), run.signal));
      if (run.signal.aborted) return;
      if (question.interventions.length) await this.runModified(question, found, run.signal);
      else this.show(found, null, null);
    } catch (failure) {
      if (!run.signal.aborted) this.error = errorInfo(failure);
    } finally {
      if (this.pending === run) {
        this.busy = false;
        this.partial = [];
      }
    }
  }

  /** The same through the modified model. If the server rejects the interventions, the previous ones stay active. */
  private async runModified(question: api.Question, original: TracedTranslation, signal: AbortSignal): Promise<void> {
    try {
      const modified = await this.translateAndTrace(question, null, signal);
      const forced = await this.requestTrace(question, original.trace.ids, original.translation, signal);
      if (!signal.aborted) this.show(original, modified, forced);
    } catch (failure) {
      if (signal.aborted) return;
      // Results with interventions on another sentence do not apply to this one.
      if (original !== this.original) this.show(original, null, null);
      this.view.interventions = this.modified?.interventions ?? [];
      throw failure;
    }
  }

  private show(original: TracedTranslation, modified: TracedTranslation | null, forced: Trace | null): void {
    this.original = original;
    this.modified = modified;
    this.forced = forced;
    this.clampSelection();
  }

  private async translateAndTrace(question: api.Question, ids: number[] | null, signal: AbortSignal): Promise<TracedTranslation> {
    const { interventions } = question;
    // A search generates token by token, so a causal mask has no effect in it.
    const searched = { ...question, interventions: interventions.filter((one) => one.kind !== "mask") };
    const translation = await (interventions.length
      ? api.translate(searched, 4, null, signal)
      : api.translateStreaming(searched, 4, (tokens) => this.showPartial(tokens, signal), signal));
    const chosen = ids ?? idsOf(translation.alternatives[0]);
    return { translation, trace: await this.requestTrace(question, chosen, translation, signal), interventions };
  }

  private showPartial(tokens: ScoredPiece[], signal: AbortSignal): void {
    if (!signal.aborted) this.partial = tokens;
  }

  private async requestTrace(question: api.Question, ids: number[], found: Translation, signal: AbortSignal): Promise<Trace> {
    // Leave out weights that are set in rows beyond the end of this translation.
    const applicable = question.interventions.filter(
      (one) => one.kind !== "weight" || one.where.startsWith("encoder") || one.row <= ids.length,
    );
    return new Trace(await api.trace({ ...question, interventions: applicable }, ids, signal), question.model, found);
  }

  question(interventions: Intervention[]): api.Question {
    if (!this.model) throw new api.ApiError("no-model");
    const options = $state.snapshot(this.view.options);
    return { model: this.model.id, text: this.view.text, options, interventions };
  }

  /** A selection from a link or from the previous sentence may be out of range. */
  private clampSelection(): void {
    const trace = this.trace;
    if (!trace) return;
    const view = this.view;
    view.step = Math.min(view.step, trace.outputTokens.length - 1);
    view.position = Math.min(view.position, trace.src.length - 1);
    if (!trace.kinds.includes(view.kind)) view.kind = "cross";
    if (!trace.kinds.length) return;
    view.layer = Math.min(view.layer, trace.layers(view.kind) - 1);
    view.head = Math.min(view.head, trace.heads(view.kind, view.layer) - 1);
    const { cell, kind } = view;
    if (cell && (cell.row >= trace.queries(kind).length || cell.column >= trace.keys(kind).length)) view.cell = null;
  }

  showHead(kind: AttentionKind, layer: number, head: number, cell: address.Cell | null = null): void {
    Object.assign(this.view, { kind, layer, head, cell, panel: "head", lesson: null });
  }

  /** The lesson follows a word with a meaning: of the longest words, the one that the translation attends to most. */
  selectMainWord(): void {
    const trace = this.trace;
    if (trace && this.view.position === 0) {
      const total = trace.src.map((_, position) =>
        trace.outputTokens.reduce((sum, _token, step) => sum + trace.crossAttention(step)[position], 0),
      );
      const words = trace.srcWords.filter((word) => /\p{Letter}/u.test(word.text) && !isSpecial(word.text));
      const length = Math.max(...words.map((word) => Math.min(4, [...word.text].length)), 0);
      const found = words.filter((word) => [...word.text].length >= length).toSorted((a, b) => total[b.from] - total[a.from])[0];
      this.view.position = found?.from ?? 0;
    }
  }

  /** Select a source token. */
  pickSource(position: number): void {
    this.view.position = position;
    this.picked = "src";
  }

  showStep(step: number): void {
    this.picked = "tgt";
    const last = (this.trace?.outputTokens.length ?? 1) - 1;
    this.view.step = Math.max(0, Math.min(step, last));
  }
}

export const session = new Session();

/** Write the view to the URL. A new panel or sentence adds a history entry; other changes replace the current one. */
export function syncAddress(): void {
  let before = "";
  $effect(() => {
    const hash = address.write(session.view);
    if (hash === location.hash || hash === before) return;
    const { panel, text } = address.read(location.hash);
    const isNewEntry = panel !== session.view.panel || text !== session.view.text;
    before = hash;
    try {
      if (isNewEntry && location.hash) history.pushState(null, "", hash);
      else history.replaceState(null, "", hash);
    } catch {
      // A page inside a notebook has no URL of its own.
    }
  });
}
