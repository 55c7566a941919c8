// The lessons and prepared examples, in both languages, and a lesson that was opened from a file.
import type { Language } from "../i18n/messages";
import { preferences } from "../state/preferences.svelte";
import { session } from "../state/session.svelte";
import type { Model } from "../api/types";
import { parseLesson, type Lesson } from "./parse";

const ORDER = ["the-model", "i-love-you", "two-its", "word-order", "fluffy-creature", "scaling", "one-head", "apple", "beam", "bahdanau"] as const;
export const MAIN_LESSON = ORDER[0];
export const OPENED = "file";

const files = import.meta.glob<string>("./*/*.md", { query: "?raw", import: "default", eager: true });

function readAll(language: Language): Lesson[] {
  return ORDER.map((id) => parseLesson(id, files[`./${language}/${id}.md`]));
}

const lessons: Record<Language, Lesson[]> = { en: readAll("en"), zh: readAll("zh") };

class Catalogue {
  opened = $state.raw<Lesson | null>(null);

  get all(): Lesson[] {
    return this.opened ? [...lessons[preferences.language], this.opened] : lessons[preferences.language];
  }

  find(id: string): Lesson | null {
    return this.all.find((one) => one.id === id) ?? null;
  }

  /** The loaded model that a lesson is about; null: none fits. */
  modelFor(lesson: Lesson): Model | null {
    const fits = (model: Model): boolean =>
      (lesson.needs === "recurrent") === (model.config.family === "recurrent") &&
      (!lesson.languages || `${model.src_lang}-${model.tgt_lang}` === lesson.languages);
    const now = session.model;
    return now && fits(now) ? now : (session.models.find(fits) ?? null);
  }

  /** Those that a loaded model can play. A file with one sentence only has the lesson about it. */
  get playable(): Lesson[] {
    if (session.isStatic) return this.all.filter((one) => one.id === MAIN_LESSON);
    return this.all.filter((one) => this.modelFor(one) !== null);
  }

  open(text: string): Lesson {
    return (this.opened = parseLesson(OPENED, text));
  }
}

export const catalogue = new Catalogue();
