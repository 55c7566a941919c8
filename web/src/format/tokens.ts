// How a single token is displayed: without SentencePiece's marker for a preceding space, unless pieces are to be seen.
import { preferences } from "../state/preferences.svelte";

const SPACE_MARKER = "▁";

export function displayToken(piece: string): string {
  if (preferences.reading === "pieces") return piece;
  if (piece === SPACE_MARKER) return "␣";
  return piece.startsWith(SPACE_MARKER) ? piece.slice(1) : piece;
}

export function truncate(text: string, length = 10): string {
  const characters = [...text];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : text;
}

export function truncateToken(piece: string, length = 10): string {
  return truncate(displayToken(piece), length);
}
