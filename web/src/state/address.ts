// The URL fragment: everything needed to show the same view again.
import type { DecodeOptions, Intervention } from "../api/types";
import { ATTENTION_KINDS, type AttentionKind } from "./attention";
import { findPanel, type Panel } from "./panels";

export interface Cell {
  row: number;
  column: number;
}

export interface Address {
  panel: Panel;
  model: string;
  text: string;
  tgt: number[] | null;
  kind: AttentionKind;
  layer: number;
  head: number;
  /** The selected output token. */
  step: number;
  /** The selected source token. */
  position: number;
  cell: Cell | null;
  options: DecodeOptions;
  interventions: Intervention[];
  /** The step of a lesson, and which lesson; empty: the main one. */
  lesson: number | null;
  course: string;
}

export const HOME: Address = {
  panel: "translate",
  model: "",
  text: "",
  tgt: null,
  kind: "cross",
  layer: 0,
  head: 0,
  step: 0,
  position: 0,
  cell: null,
  options: {},
  interventions: [],
  lesson: null,
  course: "",
};

export function write(address: Address): string {
  const fields = new URLSearchParams();
  const put = (name: string, value: string, usual: string): void => {
    if (value !== usual) fields.set(name, value);
  };
  put("model", address.model, "");
  put("text", address.text, "");
  if (address.tgt) fields.set("tgt", address.tgt.join("."));
  put("kind", address.kind, HOME.kind);
  for (const name of ["layer", "head", "step", "position"] as const) put(name, String(address[name]), "0");
  if (address.cell) fields.set("cell", `${address.cell.row}.${address.cell.column}`);
  for (const [name, value] of Object.entries(address.options)) fields.set(`decode.${name}`, String(value));
  if (address.interventions.length) fields.set("change", JSON.stringify(address.interventions));
  if (address.lesson !== null) fields.set("lesson", address.course ? `${address.course}.${address.lesson}` : String(address.lesson));
  const text = fields.toString();
  return text ? `#${address.panel}?${text}` : `#${address.panel}`;
}

export function read(hash: string): Address {
  const [name, text = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const fields = new URLSearchParams(text);
  const count = (field: string): number => Math.max(0, Math.trunc(Number(fields.get(field) ?? 0)) || 0);
  // “4” is a step of the main lesson, “word-order.1” of another.
  const [step, course] = (fields.get("lesson")?.split(".") ?? []).reverse();
  return {
    panel: findPanel(name) ?? HOME.panel,
    model: fields.get("model") ?? "",
    text: fields.get("text") ?? "",
    tgt: readIds(fields.get("tgt")),
    kind: ATTENTION_KINDS.find((kind) => kind === fields.get("kind")) ?? HOME.kind,
    layer: count("layer"),
    head: count("head"),
    step: count("step"),
    // Links made by earlier versions say `place`.
    position: count(fields.has("place") ? "place" : "position"),
    cell: readCell(fields.get("cell")),
    options: readOptions(fields),
    interventions: readInterventions(fields.get("change")),
    lesson: step === undefined ? null : Math.max(0, Math.trunc(Number(step)) || 0),
    course: course ?? "",
  };
}

function readIds(text: string | null): number[] | null {
  if (text === null) return null;
  const ids = text.split(".").filter(Boolean).map(Number);
  return ids.every((id) => Number.isInteger(id) && id >= 0) ? ids : null;
}

function readCell(text: string | null): Cell | null {
  const [row, column] = (text ?? "").split(".").map(Number);
  return Number.isInteger(row) && Number.isInteger(column) ? { row, column } : null;
}

function readOptions(fields: URLSearchParams): DecodeOptions {
  const options: Record<string, string | number> = {};
  for (const [name, value] of fields) {
    if (!name.startsWith("decode.")) continue;
    options[name.slice("decode.".length)] = Number.isFinite(Number(value)) ? Number(value) : value;
  }
  return options;
}

function readInterventions(text: string | null): Intervention[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? (found as Intervention[]) : [];
  } catch {
    return [];
  }
}
