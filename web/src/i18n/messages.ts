// The texts of the page: one catalogue per language, with the same keys. {name} marks a placeholder.
import en from "./en.json";
import zh from "./zh.json";

export type Language = "en" | "zh";
export type MessageKey = keyof typeof en;

const catalogues: Record<Language, Record<MessageKey, string>> = { en, zh };

export function t(language: Language, key: MessageKey, values: Record<string, string | number>): string {
  return catalogues[language][key].replace(/\{(\w+)\}/g, (placeholder, name: string) => String(values[name] ?? placeholder));
}

export function isMessageKey(text: string): text is MessageKey {
  return text in en;
}
