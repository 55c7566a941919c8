import type { Model } from "../api/types";
import type { Trace } from "../state/trace";

/** The properties of the panels that show a trace. */
export interface PanelProps {
  trace: Trace;
  model: Model;
}
