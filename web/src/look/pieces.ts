// How a piece of text is shown: SentencePiece's space mark is for the tokenizer, not for reading.

const SPACE = "▁";

export function shown(piece: string): string {
  if (piece === SPACE) return "␣";
  return piece.startsWith(SPACE) ? piece.slice(1) : piece;
}

export function clipped(piece: string, length = 10): string {
  const text = shown(piece);
  const characters = [...text];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : text;
}
