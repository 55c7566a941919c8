import type { Model } from "../api/types";
import type { Trace } from "../state/trace";

/** What every panel that looks inside is given. */
export interface Seen {
  trace: Trace;
  model: Model;
}
