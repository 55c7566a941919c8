// Keyboard shortcuts, except while an input field has the focus.
import { tick } from "svelte";
import { move } from "../lessons/play";
import { PANEL_KEYS, PANELS } from "./panels";
import { preferences } from "./preferences.svelte";
import { session } from "./session.svelte";

/** Returns a function that removes the listener. */
export function listenForShortcuts(toggleHelp: () => void): () => void {
  const onKeydown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    // Input fields, and charts with their own cursor, handle the keys themselves.
    if (target.closest("input, textarea, select, dialog, [data-keys]")) return;
    if (handleKey(event.key, toggleHelp)) event.preventDefault();
  };
  window.addEventListener("keydown", onKeydown);
  return () => window.removeEventListener("keydown", onKeydown);
}

function handleKey(key: string, toggleHelp: () => void): boolean {
  const panel = PANEL_KEYS.indexOf(key);
  if (panel >= 0) {
    session.open(PANELS[panel]);
    return true;
  }
  const view = session.view;
  switch (key) {
    case "ArrowLeft":
    case "ArrowRight": {
      const by = key === "ArrowLeft" ? -1 : 1;
      if (view.lesson !== null) move(by);
      else session.showStep(view.step + by);
      return true;
    }
    case "[":
    case "]": {
      const heads = session.trace?.kinds.length ? session.trace.heads(view.kind, view.layer) : 1;
      view.head = (view.head + (key === "]" ? 1 : heads - 1)) % heads;
      return true;
    }
    case "f":
      if (view.lesson === null) return false;
      session.setSlides(!session.slides);
      return true;
    case "Escape":
      if (!session.slides) return false;
      session.setSlides(false);
      return true;
    case "l":
      preferences.setLanguage(preferences.language === "en" ? "zh" : "en");
      return true;
    case "d":
      preferences.setTheme(preferences.theme === "dark" ? "light" : "dark");
      return true;
    case "/":
      session.open("translate");
      void tick().then(() => document.getElementById("text")?.focus());
      return true;
    case "?":
      toggleHelp();
      return true;
    default:
      return false;
  }
}
