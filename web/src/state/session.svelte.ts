// What the page is about now: a model, a sentence, what became of it, and what is looked at.
import * as api from "../api/client";
import type { Intervention, Limits, Model, ScoredPiece, Translation } from "../api/types";
import * as address from "./address";
import type { Kind, Panel } from "./places";
import { idsOf, Trace } from "./trace";

/** A translation and its insides, through the model with these changes. */
export interface Journey {
  translation: Translation;
  trace: Trace;
  changes: Intervention[];
}

/** What went wrong, as the server put it; `message` may be one of the page's own words. */
export interface Trouble {
  message: string;
  hint: string;
}

export function troubleOf(failure: unknown): Trouble {
  if (failure instanceof api.Refusal) return { message: failure.message, hint: failure.hint };
  return { message: failure instanceof Error ? failure.message : String(failure), hint: "" };
}

class Session {
  models = $state.raw<Model[]>([]);
  limits = $state.raw<Limits>({ characters: 2000, pieces: 512, beam: 16, n_best: 16 });
  at = $state<address.Address>(structuredClone(address.HOME));
  /** What stands in the box, which may not have been translated yet. */
  draft = $state("");
  busy = $state(false);
  /** What has been written of a translation that is not finished. */
  writing = $state.raw<ScoredPiece[]>([]);
  trouble = $state.raw<Trouble | null>(null);
  /** Without any change, and with the changes that are in force (the same when there are none). */
  plain = $state.raw<Journey | null>(null);
  changed = $state.raw<Journey | null>(null);
  /** The unchanged translation, word for word, through the changed model. */
  forced = $state.raw<Trace | null>(null);
  private running: AbortController | null = null;

  get model(): Model | null {
    const asked = this.at.model;
    const found = this.models.find((model) => model.id === asked) ?? this.models.find((model) => model.name === asked);
    return found ?? this.models[0] ?? null;
  }

  get journey(): Journey | null {
    return this.changed ?? this.plain;
  }

  get trace(): Trace | null {
    return this.journey?.trace ?? null;
  }

  get still(): boolean {
    return api.source.still;
  }

  async begin(): Promise<void> {
    this.at = address.read(location.hash);
    try {
      const found = await api.models();
      this.models = found.models;
      this.limits = found.limits;
    } catch (failure) {
      this.trouble = troubleOf(failure);
      return;
    }
    const given = api.source.sentence;
    if (given) {
      this.at.model = given.model;
      this.at.text = given.text;
      this.at.interventions = [];
      this.at.tgt = null;
    }
    this.draft = this.at.text;
    if (this.at.text) await this.run();
  }

  /** The address was changed from outside: a link, or back and forward. */
  async follow(): Promise<void> {
    const before = JSON.stringify(this.question());
    this.at = address.read(location.hash);
    if (JSON.stringify(this.question()) === before) {
      this.keepInside();
      return;
    }
    this.forget();
    this.draft = this.at.text;
    if (this.at.text) await this.run();
  }

  /** What stands there, or is on its way, is no answer to what is asked now. */
  private forget(): void {
    this.running?.abort();
    this.running = null;
    this.busy = false;
    this.writing = [];
    this.trouble = null;
    this.plain = this.changed = this.forced = null;
  }

  private question(): unknown {
    const { model, text, tgt, options, interventions } = this.at;
    return [model, text, tgt, options, interventions];
  }

  open(panel: Panel): void {
    this.at.panel = panel;
    this.at.lesson = null;
  }

  async translate(): Promise<void> {
    this.at.text = this.draft.trim();
    this.at.tgt = null;
    this.at.cell = null;
    this.at.step = 0;
    this.at.place = 0;
    if (this.at.text) await this.run();
  }

  /** A training may have ended, and its model joined the others. */
  async findModels(): Promise<void> {
    this.models = (await api.models()).models;
  }

  async choose(model: Model): Promise<void> {
    this.forget();
    if (model.src_lang !== this.model?.src_lang) this.at.text = this.draft = "";
    // A name says more in a link than a number, where it says enough.
    const named = this.models.filter((one) => one.name === model.name);
    this.at.model = named.length === 1 ? model.name : model.id;
    this.at.interventions = [];
    this.at.options = {};
    this.at.tgt = null;
    this.at.layer = 0;
    this.at.head = 0;
    this.at.cell = null;
    if (this.at.text) await this.run();
    else this.open("translate");
  }

  /** Look into another translation of the same sentence. */
  async look(ids: number[] | null): Promise<void> {
    this.at.tgt = ids;
    this.at.step = 0;
    this.at.cell = null;
    await this.run();
  }

  async change(interventions: Intervention[]): Promise<void> {
    this.at.interventions = interventions;
    if (this.at.text) await this.run(this.plain);
  }

  /** Translate and look inside; `plain` is kept where only the changes are new. */
  private async run(plain: Journey | null = null): Promise<void> {
    this.running?.abort();
    const run = (this.running = new AbortController());
    this.busy = true;
    this.writing = [];
    this.trouble = null;
    try {
      // Asked once: what is chosen meanwhile is another question.
      const question = this.ask($state.snapshot(this.at.interventions) as Intervention[]);
      const found = plain ?? (await this.travel({ ...question, interventions: [] }, $state.snapshot(this.at.tgt), run.signal));
      if (run.signal.aborted) return;
      if (question.interventions.length) await this.runChanged(question, found, run.signal);
      else this.show(found, null, null);
    } catch (failure) {
      if (!run.signal.aborted) this.trouble = troubleOf(failure);
    } finally {
      if (this.running === run) {
        this.busy = false;
        this.writing = [];
      }
    }
  }

  /** The same through the changed model. What it refuses is not in force: the changes before it are. */
  private async runChanged(question: api.Question, plain: Journey, signal: AbortSignal): Promise<void> {
    try {
      const changed = await this.travel(question, null, signal);
      const forced = await this.lookInside(question, plain.trace.ids, plain.translation, signal);
      if (!signal.aborted) this.show(plain, changed, forced);
    } catch (failure) {
      if (signal.aborted) return;
      // Changes that were in force over another sentence say nothing of this one.
      if (plain !== this.plain) this.show(plain, null, null);
      this.at.interventions = this.changed?.changes ?? [];
      throw failure;
    }
  }

  private show(plain: Journey, changed: Journey | null, forced: Trace | null): void {
    this.plain = plain;
    this.changed = changed;
    this.forced = forced;
    this.keepInside();
  }

  private async travel(question: api.Question, ids: number[] | null, signal: AbortSignal): Promise<Journey> {
    const changes = question.interventions;
    // A search writes word by word: there is no future that a mask could hide.
    const searched = { ...question, interventions: changes.filter((change) => change.kind !== "mask") };
    const translation = await (changes.length
      ? api.translate(searched, 4, null, signal)
      : api.translateWord(searched, 4, (written) => this.hear(written, signal), signal));
    const chosen = ids ?? idsOf(translation.alternatives[0]);
    return { translation, trace: await this.lookInside(question, chosen, translation, signal), changes };
  }

  private hear(written: ScoredPiece[], signal: AbortSignal): void {
    if (!signal.aborted) this.writing = written;
  }

  private async lookInside(question: api.Question, ids: number[], found: Translation, signal: AbortSignal): Promise<Trace> {
    // A weight that was set in a row which this translation does not reach changes nothing in it.
    const reached = question.interventions.filter(
      (one) => one.kind !== "weight" || one.where.startsWith("encoder") || one.row <= ids.length,
    );
    return new Trace(await api.trace({ ...question, interventions: reached }, ids, signal), question.model, found);
  }

  ask(interventions: Intervention[]): api.Question {
    if (!this.model) throw new api.Refusal("no-model");
    const options = $state.snapshot(this.at.options);
    return { model: this.model.id, text: this.at.text, options, interventions };
  }

  /** A selection from a link, or from the sentence before, may lie outside this one. */
  private keepInside(): void {
    const trace = this.trace;
    if (!trace) return;
    const at = this.at;
    at.step = Math.min(at.step, trace.written.length - 1);
    at.place = Math.min(at.place, trace.src.length - 1);
    if (!trace.kinds.includes(at.kind)) at.kind = "cross";
    if (!trace.kinds.length) return;
    at.layer = Math.min(at.layer, trace.layers(at.kind) - 1);
    at.head = Math.min(at.head, trace.heads(at.kind, at.layer) - 1);
    if (at.cell && (at.cell.row >= trace.queries(at.kind).length || at.cell.column >= trace.keys(at.kind).length)) at.cell = null;
  }

  showHead(kind: Kind, layer: number, head: number): void {
    Object.assign(this.at, { kind, layer, head, cell: null, panel: "head", lesson: null });
  }

  showStep(step: number): void {
    const last = (this.trace?.written.length ?? 1) - 1;
    this.at.step = Math.max(0, Math.min(step, last));
  }
}

export const session = new Session();

/** Keep the address bar true. A new panel or sentence is a step back for the browser's button; the rest is not. */
export function keepAddress(): void {
  let before = "";
  $effect(() => {
    const hash = address.write(session.at);
    if (hash === location.hash || hash === before) return;
    const { panel, text } = address.read(location.hash);
    const far = panel !== session.at.panel || text !== session.at.text;
    before = hash;
    try {
      if (far && location.hash) history.pushState(null, "", hash);
      else history.replaceState(null, "", hash);
    } catch {
      // A page inside a notebook has no address of its own.
    }
  });
}
