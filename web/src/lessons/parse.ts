// Lessons as Markdown: a head with the title, then steps. Each step is a heading, directives and text (docs/guide/lessons.md).
import type { Intervention } from "../api/types";
import { ATTENTION_KINDS, type AttentionKind } from "../state/attention";
import { findPanel, type Panel } from "../state/panels";
import { DECODER_STAGES, ENCODER_STAGES, type Stage } from "../walk/stages";

export const FIGURES = [
  ...(["tokens", "embedding", "position", "qkv", "score", "scale", "mask"] as const),
  ...(["softmax", "heads", "norm", "ffn", "cross", "next", "loop"] as const),
] as const;
export type FigureName = (typeof FIGURES)[number];

export const CONDITIONS = ["unscaled-embedding", "other-positions", "other-scale", "no-mask", "pre-norm", "other-ffn"] as const;
export type Condition = (typeof CONDITIONS)[number];

export const NEEDS = ["transformer", "recurrent"] as const;

/** A change of the model: one intervention, or only one head left in every attention. */
export type Change = Intervention | { kind: "one-head" };

export interface Step {
  title: string;
  panel: Panel;
  stage: Stage | null;
  figure: FigureName | null;
  sentence: string | null;
  source: string | null;
  target: string | null;
  key: string | null;
  kind: AttentionKind | null;
  /** From 0. */
  layer: number | null;
  head: number | null;
  changes: Change[];
  options: Record<string, string | number>;
  /** The text, and others for models that differ from the paper's. */
  texts: { when: Condition | null; text: string }[];
}

export interface Lesson {
  id: string;
  title: string;
  summary: string;
  /** The languages of the model, such as zh-en; empty: any. */
  languages: string;
  needs: (typeof NEEDS)[number];
  sentence: string | null;
  steps: Step[];
}

/** `message` says what is wrong, and where. */
export class LessonError extends Error {}

export function parseLesson(id: string, text: string): Lesson {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const fail = (line: number, problem: string): never => {
    throw new LessonError(`${id}, line ${line + 1}: ${problem}`);
  };
  const end = lines.indexOf("---", 1);
  if (lines[0] !== "---" || end < 0) fail(0, "a lesson begins with a head between two lines ---");
  const head = new Map<string, string>();
  for (let at = 1; at < end; at++) {
    const [, name, value] = /^(\w+):\s*(.*)$/.exec(lines[at]) ?? fail(at, "the head has lines like “title: …”");
    if (!["title", "summary", "model", "needs", "sentence"].includes(name)) fail(at, `the head has no “${name}”`);
    head.set(name, value);
  }
  const needs = NEEDS.find((one) => one === (head.get("needs") ?? "transformer")) ?? fail(0, `needs is one of ${NEEDS.join(", ")}`);
  const steps: Step[] = [];
  for (let at = end + 1; at < lines.length; at++) {
    const line = lines[at];
    const step = steps.at(-1);
    if (line.startsWith("## ")) steps.push(newStep(line.slice(3).trim()));
    else if (!step) {
      if (line.trim()) fail(at, "text before the first step; a step begins with “## title”");
    } else if (line.startsWith("@")) {
      try {
        direct(step, line);
      } catch (error) {
        fail(at, (error as Error).message);
      }
    } else step.texts[step.texts.length - 1].text += `${line}\n`;
  }
  const title = head.get("title") ?? fail(0, "the head has no title");
  if (!steps.length) fail(end, "a lesson has at least one step, which begins with “## title”");
  const optional = { summary: head.get("summary") ?? "", languages: head.get("model") ?? "", sentence: head.get("sentence") ?? null };
  return { id, title, needs, steps, ...optional };
}

function newStep(title: string): Step {
  const nothing = { stage: null, figure: null, sentence: null, source: null, target: null, key: null, kind: null, layer: null, head: null };
  return { title, panel: "overview", ...nothing, changes: [], options: {}, texts: [{ when: null, text: "" }] };
}

function oneOf<Name extends string>(names: readonly Name[], name: string, what: string): Name {
  const found = names.find((one) => one === name);
  if (!found) throw new Error(`there is no ${what} “${name}”; there are ${names.join(", ")}`);
  return found;
}

function direct(step: Step, line: string): void {
  const [, name, rest] = /^@([\w-]+)\s*(.*)$/.exec(line) ?? ["", "", ""];
  switch (name) {
    case "panel": {
      const panel = findPanel(rest);
      if (!panel) throw new Error(`there is no panel “${rest}”`);
      step.panel = panel;
      return;
    }
    case "stage":
      step.stage = oneOf([...ENCODER_STAGES, ...DECODER_STAGES], rest, "stage");
      return;
    case "figure":
      step.figure = oneOf(FIGURES, rest, "figure");
      return;
    case "sentence":
      step.sentence = rest;
      return;
    case "select":
      return select(step, fieldsOf(rest));
    case "change":
      step.changes.push(parseChange(rest));
      return;
    case "decode":
      for (const [field, value] of fieldsOf(rest)) step.options[field] = Number.isFinite(Number(value)) ? Number(value) : value;
      return;
    case "when":
      step.texts.push({ when: oneOf(CONDITIONS, rest, "condition"), text: "" });
      return;
    default:
      throw new Error(`there is no directive “@${name}”`);
  }
}

function select(step: Step, fields: Map<string, string>): void {
  for (const [field, value] of fields)
    switch (field) {
      case "source":
      case "target":
      case "key":
        step[field] = value;
        break;
      case "kind":
        step.kind = oneOf(ATTENTION_KINDS, value, "kind of attention");
        break;
      case "layer":
      case "head":
        if (!(Number(value) >= 1)) throw new Error(`${field}=${value}: layers and heads are counted from 1`);
        step[field] = Number(value) - 1;
        break;
      default:
        throw new Error(`@select has no “${field}”`);
    }
}

export function parseChange(text: string): Change {
  switch (text) {
    case "scale":
    case "mask":
    case "positions":
    case "one-head":
      return { kind: text };
    default: {
      if (!text.startsWith("{")) throw new Error(`there is no change “${text}”; it is scale, mask, positions, one-head, or an intervention as JSON`);
      return JSON.parse(text) as Intervention;
    }
  }
}

/** name=value, with quotes where the value contains spaces. */
export function fieldsOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name, quoted, plain] of text.matchAll(/([\w-]+)=(?:"([^"]*)"|(\S+))/g)) found.set(name, quoted ?? plain);
  return found;
}
