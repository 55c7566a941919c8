// The response to a request that depends on reactive state. The previous value stays until the next one arrives.
import { errorInfo, type ErrorInfo } from "./session.svelte";

export class Fetched<Value> {
  value = $state.raw<Value | null>(null);
  error = $state.raw<ErrorInfo | null>(null);
  busy = $state(false);

  /** Call during component initialisation. `request` runs again when the state it reads changes; null means no request. */
  constructor(request: () => Promise<Value> | null) {
    $effect(() => {
      let stale = false;
      let response: Promise<Value> | null;
      try {
        response = request();
      } catch (failure) {
        response = Promise.reject(failure as Error);
      }
      if (!response) {
        this.value = null;
        this.error = null;
        this.busy = false;
        return;
      }
      this.busy = true;
      response
        .then((value) => {
          if (stale) return;
          this.value = value;
          this.error = null;
        })
        .catch((failure: unknown) => {
          if (stale) return;
          this.value = null;
          this.error = errorInfo(failure);
        })
        .finally(() => {
          if (!stale) this.busy = false;
        });
      return () => {
        stale = true;
      };
    });
  }
}
