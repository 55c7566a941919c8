// The numbers in the texts of lessons, measured on the model and the sentence that are shown: {attention from=love to=爱}.
import * as api from "../api/client";
import type { Intervention, Model } from "../api/types";
import { readingUnits } from "../format/labels";
import { fixed, percent } from "../format/numbers";
import type { Word } from "../format/words";
import { t } from "../state/preferences.svelte";
import type { Trace } from "../state/trace";
import { findLinks, type Link } from "../where/links";
import { fieldsOf, parseChange, type Change } from "./parse";

const PLACEHOLDER = /\{([\w-]+)((?:\s+[\w-]+=(?:"[^"]*"|[^\s}]+))*)\}/g;

/** The word of a sentence that contains this text; “它#2” is the second such word. */
export function findWord(words: Word[], wanted: string): Word | null {
  const [text, which = "1"] = wanted.split("#");
  const same = (word: Word): boolean => word.text.toLowerCase() === text.toLowerCase();
  const exact = words.filter(same);
  const found = exact.length ? exact : words.filter((word) => word.text.toLowerCase().includes(text.toLowerCase()));
  return found[Number(which) - 1] ?? null;
}

/** A change as interventions on this model. */
export function interventionsOf(change: Change, trace: Trace): Intervention[] {
  if (change.kind !== "one-head") return [change];
  const found: Intervention[] = [];
  for (const path of Object.keys(trace.taps)) {
    if (!path.endsWith(".weights")) continue;
    const heads = trace.taps[path][0];
    for (let head = 1; head < heads; head++) found.push({ kind: "head", where: path.replace(/\.weights$/, ""), head });
  }
  return found;
}

export interface Context {
  /** Of the model as it is without interventions. */
  trace: Trace;
  model: Model;
  /** Placeholders without a measurement. */
  values: Record<string, string | number>;
}

/** The text with all numbers filled in. */
export async function fillIn(text: string, context: Context): Promise<string> {
  const found = [...text.matchAll(PLACEHOLDER)];
  const values = await Promise.all(found.map(([whole, name, fields]) => (fields.trim() || !(name in context.values) ? measure(name, fieldsOf(fields), context) : Promise.resolve(String(context.values[name] ?? whole)))));
  let index = 0;
  return text.replace(PLACEHOLDER, () => values[index++]);
}

async function measure(name: string, fields: Map<string, string>, context: Context): Promise<string> {
  const { trace, model } = context;
  switch (name) {
    case "attention":
      return percent(link(fields, trace).attention);
    case "strongest": {
      const { strongest } = link(fields, trace);
      return `${t("head-name", { kind: t(`kind.${strongest.kind}`), layer: strongest.layer + 1, head: strongest.head + 1 })}: ${percent(strongest.weight)}`;
    }
    case "rank": {
      const wanted = link(fields, trace);
      const same = linksOf(fields, trace).filter((one) => one.kind === wanted.kind);
      return String(same.findIndex((one) => one.key.from === wanted.key.from) + 1);
    }
    case "cut": {
      const { before, after, word } = await cut(fields, context);
      const sum = (values: number[]): number => values.slice(word.from, word.to).reduce((a, b) => a + b, 0);
      return `${percent(Math.exp(sum(before)))} → ${percent(Math.exp(sum(after)))}`;
    }
    case "effect": {
      const found = await api.effects(model.id, trace.text, trace.ids, [changes(fields, trace)]);
      const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);
      return fixed(sum(found.after[0]) - sum(found.before), 2);
    }
    case "peak":
      return percent(await peak(changes(fields, trace), context));
    case "output":
      return (await search(fields, context)).text;
    case "log-prob":
      return fixed((await search(fields, context)).log_prob, 2);
    case "lens":
      return lens(fields, context);
    default:
      throw new api.ApiError(`there is no measurement {${name}}`);
  }
}

function linksOf(fields: Map<string, string>, trace: Trace): Link[] {
  const from = fields.get("from") ?? "";
  const word = findWord(trace.tgtWords, from);
  const side = fields.get("side") === "src" || !word ? "src" : "tgt";
  const query = side === "src" ? findWord(trace.srcWords, from) : word;
  if (!query) throw new api.ApiError(`there is no “${from}” in the sentence`);
  return findLinks(trace, side, query);
}

function link(fields: Map<string, string>, trace: Trace): Link {
  const to = fields.get("to") ?? "";
  const links = linksOf(fields, trace);
  const key = findWord(readingUnits(trace.src.map((token) => token.piece)), to);
  const found = links.find((one) => one.kind !== "decoder" && one.key.from === key?.from);
  if (!found) throw new api.ApiError(`there is no “${to}” in the sentence`);
  return found;
}

async function cut(fields: Map<string, string>, { trace, model }: Context): Promise<{ before: number[]; after: number[]; word: Word }> {
  const found = await api.effects(model.id, trace.text, trace.ids, [link(fields, trace).cut]);
  const word = findWord(trace.tgtWords, fields.get("from") ?? "") ?? { text: "", from: 0, to: found.before.length };
  return { before: found.before, after: found.after[0], word };
}

function changes(fields: Map<string, string>, trace: Trace): Intervention[] {
  const text = fields.get("change");
  return text ? interventionsOf(parseChange(text), trace) : [];
}

/** The largest weight of a row, averaged over all rows, heads and layers. */
async function peak(interventions: Intervention[], { trace, model }: Context): Promise<number> {
  const question = { model: model.id, text: trace.text, options: {}, interventions };
  const { header } = await api.trace(question, trace.ids);
  const { heads } = await api.attentionSummary(header.trace);
  return heads.reduce((sum, head) => sum + head.peak, 0) / heads.length;
}

async function search(fields: Map<string, string>, { trace, model }: Context): Promise<{ text: string; log_prob: number }> {
  const options = fields.has("beam") ? { beam: Number(fields.get("beam")) } : {};
  const interventions = changes(fields, trace).filter((one) => one.kind !== "mask");
  const question = { model: model.id, text: fields.get("text") ?? trace.text, options, interventions };
  return (await api.translate(question, 1, null)).alternatives[0];
}

/** The rank of a token of the translation after each decoder layer. */
async function lens(fields: Map<string, string>, { trace }: Context): Promise<string> {
  const word = findWord(trace.tgtWords, fields.get("of") ?? "");
  if (!word) throw new api.ApiError(`there is no “${fields.get("of")}” in the translation`);
  const { lens } = await trace.next(word.from);
  return lens.map((layer) => layer.chosen_rank).join(" → ");
}

