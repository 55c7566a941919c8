// The keyboard, wherever it is not busy with a text.
import { preferences } from "./preferences.svelte";
import { PANELS } from "./places";
import { session } from "./session.svelte";

const PANEL_KEYS = "1234567890-=";

/** Returns what stops listening. */
export function listenToKeys(help: () => void): () => void {
  const hear = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    // A field, or a picture with a cursor of its own, has the keys first.
    if (target.closest("input, textarea, select, dialog, [data-keys]")) return;
    if (press(event.key, help)) event.preventDefault();
  };
  window.addEventListener("keydown", hear);
  return () => window.removeEventListener("keydown", hear);
}

function press(key: string, help: () => void): boolean {
  const panel = PANEL_KEYS.indexOf(key);
  if (panel >= 0) {
    session.open(PANELS[panel]);
    return true;
  }
  switch (key) {
    case "ArrowLeft":
    case "ArrowRight": {
      const by = key === "ArrowLeft" ? -1 : 1;
      if (session.at.panel === "walk" && session.at.lesson !== null) session.at.lesson = Math.max(0, session.at.lesson + by);
      else session.showStep(session.at.step + by);
      return true;
    }
    case "[":
    case "]": {
      const heads = session.trace?.kinds.length ? session.trace.heads(session.at.kind, session.at.layer) : 1;
      session.at.head = (session.at.head + (key === "]" ? 1 : heads - 1)) % heads;
      return true;
    }
    case "l":
      preferences.setLanguage(preferences.language === "en" ? "zh" : "en");
      return true;
    case "d":
      preferences.setLight(preferences.light === "dark" ? "light" : "dark");
      return true;
    case "/":
      document.getElementById("text")?.focus();
      return true;
    case "?":
      help();
      return true;
    default:
      return false;
  }
}
