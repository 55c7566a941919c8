// Language and theme, kept in the browser's local storage where that is available.
import { isMessageKey, t as lookup, type Language, type MessageKey } from "../i18n/messages";

export type Theme = "light" | "dark";
/** Whether the pieces of a word are joined. */
export type Reading = "words" | "pieces";

function load(name: string): string | null {
  try {
    return localStorage.getItem(`regard.${name}`);
  } catch {
    return null;
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(`regard.${name}`, value);
  } catch {
    // A page opened from a file may have no storage; the choice then lasts until it is closed.
  }
}

function initialLanguage(): Language {
  const wanted = load("language") ?? navigator.language;
  return wanted.startsWith("zh") ? "zh" : "en";
}

function initialTheme(): Theme {
  const wanted = load("theme");
  if (wanted === "light" || wanted === "dark") return wanted;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

class Preferences {
  language = $state<Language>(initialLanguage());
  theme = $state<Theme>(initialTheme());
  reading = $state<Reading>(load("reading") === "pieces" ? "pieces" : "words");

  get reducedMotion(): boolean {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  setLanguage(language: Language): void {
    this.language = language;
    store("language", language);
  }

  setReading(reading: Reading): void {
    this.reading = reading;
    store("reading", reading);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    store("theme", theme);
  }
}

export const preferences = new Preferences();

/** A message in the current language; reactive when called in a component. */
export function t(key: MessageKey, values: Record<string, string | number> = {}): string {
  return lookup(preferences.language, key, values);
}

/** The name of a kind of positional encoding; a kind without a message keeps its name in the configuration. */
export function positionName(kind: string): string {
  const key = `position.${kind}`;
  return isMessageKey(key) ? t(key) : kind;
}
