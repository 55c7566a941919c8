// How a token is displayed: without SentencePiece's marker for a preceding space.

const SPACE_MARKER = "▁";

export function displayToken(piece: string): string {
  if (piece === SPACE_MARKER) return "␣";
  return piece.startsWith(SPACE_MARKER) ? piece.slice(1) : piece;
}

export function truncateToken(piece: string, length = 10): string {
  const text = displayToken(piece);
  const characters = [...text];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : text;
}
