// The measured effects of interventions on a translation, fetched a few at a time.
import * as api from "../api/client";
import type { Intervention } from "../api/types";
import { errorInfo, type ErrorInfo } from "../state/session.svelte";
import type { Trace } from "../state/trace";

const AT_ONCE = 12;

export interface Asked {
  trace: Trace;
  model: string;
  /** The changes to measure, each with its name. */
  variants: Map<string, Intervention[]>;
}

export class Measured {
  /** The log-probabilities of the tokens under each change. */
  after = $state.raw(new Map<string, number[]>());
  before = $state.raw<number[]>([]);
  error = $state.raw<ErrorInfo | null>(null);
  busy = $state(false);

  /** Call during component initialisation; null: nothing is asked. */
  constructor(ask: () => Asked | null) {
    $effect(() => {
      const asked = ask();
      const stop = new AbortController();
      this.after = new Map();
      this.before = [];
      this.error = null;
      if (asked && !api.transport.isStatic) void this.run(asked, stop.signal);
      return () => stop.abort();
    });
  }

  private async run({ trace, model, variants }: Asked, signal: AbortSignal): Promise<void> {
    this.busy = true;
    const names = [...variants.keys()];
    try {
      for (let from = 0; from < names.length && !signal.aborted; from += AT_ONCE) {
        const part = names.slice(from, from + AT_ONCE);
        const found = await api.effects(model, trace.text, trace.ids, part.map((name) => variants.get(name) ?? []), signal);
        if (signal.aborted) return;
        this.before = found.before;
        this.after = new Map([...this.after, ...part.map((name, index) => [name, found.after[index]] as const)]);
      }
    } catch (failure) {
      if (!signal.aborted) this.error = errorInfo(failure);
    } finally {
      if (!signal.aborted) this.busy = false;
    }
  }

  /** The change in log-probability of the tokens [from, to), by default of all that the model generated; null: not measured yet. */
  change(name: string, from = 0, to = this.before.length): number | null {
    const after = this.after.get(name);
    if (!after) return null;
    let sum = 0;
    for (let step = from; step < Math.min(to, after.length); step++) sum += after[step] - this.before[step];
    return sum;
  }
}
