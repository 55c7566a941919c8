// The page's words: two catalogues with the same keys, and {places} for values.
import en from "./en.json";
import zh from "./zh.json";

export type Language = "en" | "zh";
export type Word = keyof typeof en;

const catalogues: Record<Language, Record<Word, string>> = { en, zh };

export function t(language: Language, word: Word, values: Record<string, string | number>): string {
  return catalogues[language][word].replace(/\{(\w+)\}/g, (place, name: string) => String(values[name] ?? place));
}

export function isWord(text: string): text is Word {
  return text in en;
}
