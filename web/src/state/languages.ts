// The scripts of languages, and the sentences offered for a model.
import type { Model } from "../api/types";

type Script = "han" | "latin" | "cyrillic" | "other";

const SCRIPTS: Record<string, Script> = { zh: "han", en: "latin", de: "latin", fr: "latin", es: "latin", it: "latin", ru: "cyrillic" };
const EXAMPLES: Record<string, string[]> = {
  zh: ["我爱你。", "他昨天买了一本书。", "你能帮我打开窗户吗？", "我不知道他什么时候回来。"],
  en: ["I love you.", "A man in a red shirt is riding a bicycle.", "She does not know when he will come back."],
  de: ["Zwei Hunde rennen durch den Schnee.", "Ein Mann fährt Fahrrad."],
};
const TOY_EXAMPLES = ["red green blue", "one two three four", "happy dog morning coffee"];

/** The script of most letters; null if there are none. */
export function scriptOf(text: string): Script | null {
  const counts: [Script, number][] = [
    ["han", 2 * (text.match(/\p{Script=Han}/gu)?.length ?? 0)],
    ["latin", text.match(/\p{Script=Latin}/gu)?.length ?? 0],
    ["cyrillic", text.match(/\p{Script=Cyrillic}/gu)?.length ?? 0],
  ];
  const [script, count] = counts.reduce((a, b) => (b[1] > a[1] ? b : a));
  if (count) return script;
  return /\p{Letter}/u.test(text) ? "other" : null;
}

/** Whether a model can read this text, as far as its script tells. */
export function reads(model: Model, text: string): boolean {
  const [wanted, script] = [SCRIPTS[model.src_lang], scriptOf(text)];
  return wanted === undefined || script === null || script === wanted;
}

/** Whether the script of the model's language is known. */
export function knownScript(model: Model): boolean {
  return model.src_lang in SCRIPTS;
}

/** Toy models copy or reverse words, and are not named after a language. */
export function examplesOf(model: Model): string[] {
  if (!(model.tgt_lang in SCRIPTS)) return model.src_lang === "en" ? TOY_EXAMPLES : [];
  return EXAMPLES[model.src_lang] ?? [];
}
