// An answer that follows what is selected: the old one stays until the new one is there.
import { troubleOf, type Trouble } from "./session.svelte";

export class Fetched<Answer> {
  value = $state.raw<Answer | null>(null);
  trouble = $state.raw<Trouble | null>(null);
  busy = $state(false);

  /** Call while a component is made. `ask` is asked again whenever what it reads changes; null: nothing to ask. */
  constructor(ask: () => Promise<Answer> | null) {
    $effect(() => {
      let left = false;
      let asked: Promise<Answer> | null;
      try {
        asked = ask();
      } catch (failure) {
        asked = Promise.reject(failure as Error);
      }
      if (!asked) {
        this.value = null;
        this.trouble = null;
        this.busy = false;
        return;
      }
      this.busy = true;
      asked
        .then((value) => {
          if (left) return;
          this.value = value;
          this.trouble = null;
        })
        .catch((failure: unknown) => {
          if (left) return;
          this.value = null;
          this.trouble = troubleOf(failure);
        })
        .finally(() => {
          if (!left) this.busy = false;
        });
      return () => {
        left = true;
      };
    });
  }
}
