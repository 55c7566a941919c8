// Taps: named places in a model where a value can be recorded or replaced. Their paths are those of the Python model.
import type { Tensor } from "./tensor";

/** Called with the value; what it returns replaces it. */
export type Hook = (value: Tensor) => Tensor | void;

/** The identity, unless it has a hook. */
export class Tap {
  hook: ((value: Tensor) => Tensor) | null = null;

  pass(value: Tensor): Tensor {
    return this.hook ? this.hook(value) : value;
  }
}

/** The taps of a model by their paths. */
export class Taps {
  private readonly byPath = new Map<string, Tap>();

  /** A new tap at this path. */
  at(path: string): Tap {
    const tap = new Tap();
    this.byPath.set(path, tap);
    return tap;
  }

  has(path: string): boolean {
    return this.byPath.has(path);
  }

  get paths(): string[] {
    return [...this.byPath.keys()];
  }

  /** Attach hooks; each gets the value that those before it return. The function that is returned detaches them. */
  attach(hooks: Iterable<readonly [path: string, hook: Hook]>): () => void {
    const before = new Map<Tap, Tap["hook"]>();
    for (const [path, hook] of hooks) {
      const tap = this.byPath.get(path);
      if (!tap) throw new Error(`there is no tap ${path}`);
      const outer = tap.hook;
      if (!before.has(tap)) before.set(tap, outer);
      tap.hook = (value) => {
        const given = outer ? outer(value) : value;
        return hook(given) ?? given;
      };
    }
    return () => {
      for (const [tap, hook] of before) tap.hook = hook;
    };
  }
}
