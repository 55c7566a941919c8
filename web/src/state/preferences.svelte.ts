// Language and light: what a person sets once. Kept in the browser where it allows that.
import { t as lookup, type Language, type Word } from "../words/words";

export type Light = "light" | "dark";

function kept(name: string): string | null {
  try {
    return localStorage.getItem(`regard.${name}`);
  } catch {
    return null;
  }
}

function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`regard.${name}`, value);
  } catch {
    // A file from a disk may not have a store; the choice then lasts as long as the page.
  }
}

function firstLanguage(): Language {
  const asked = kept("language") ?? navigator.language;
  return asked.startsWith("zh") ? "zh" : "en";
}

function firstLight(): Light {
  const asked = kept("light");
  if (asked === "light" || asked === "dark") return asked;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

class Preferences {
  language = $state<Language>(firstLanguage());
  light = $state<Light>(firstLight());

  get still(): boolean {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  setLanguage(language: Language): void {
    this.language = language;
    keep("language", language);
  }

  setLight(light: Light): void {
    this.light = light;
    keep("light", light);
  }
}

export const preferences = new Preferences();

/** The page's words in the person's language. Read inside a component, it follows the switch. */
export function t(word: Word, values: Record<string, string | number> = {}): string {
  return lookup(preferences.language, word, values);
}
