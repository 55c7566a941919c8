// Words from pieces: how the pieces of one word are joined for reading.

const SPACE_MARKER = "▁";
const BYTE = /^<0x([0-9A-F]{2})>$/;
const LETTER = /[\p{Letter}\p{Mark}\p{Number}]/u;
// Scripts without spaces between words: their pieces are words, or parts of words that no marker joins.
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

/** The pieces [from, to) of a sentence, and how they read together. */
export interface Word {
  text: string;
  from: number;
  to: number;
}

export function isSpecial(piece: string): boolean {
  return piece.startsWith("<") && piece.endsWith(">") && !BYTE.test(piece);
}

export function joinPieces(pieces: readonly string[]): Word[] {
  const words: Word[] = [];
  for (const [index, piece] of pieces.entries()) {
    const last = words.at(-1);
    if (last && continues(pieces[index - 1], piece)) last.to = index + 1;
    else words.push({ text: "", from: index, to: index + 1 });
  }
  for (const word of words) word.text = spell(pieces.slice(word.from, word.to));
  return words;
}

/** Whether `piece` belongs to the word that `before` is a part of. */
function continues(before: string, piece: string): boolean {
  if (isSpecial(before) || isSpecial(piece) || piece.startsWith(SPACE_MARKER)) return false;
  const [wasByte, isByte] = [BYTE.test(before), BYTE.test(piece)];
  if (wasByte || isByte) return wasByte && isByte && isContinuationByte(piece);
  if (before === SPACE_MARKER) return true;
  const [end, start] = [[...before].at(-1) ?? "", [...piece][0] ?? ""];
  if (UNSPACED.test(end) || UNSPACED.test(start)) return false;
  return LETTER.test(end) && LETTER.test(start);
}

/** In UTF-8, a character starts with any other byte. */
function isContinuationByte(piece: string): boolean {
  return (Number.parseInt(BYTE.exec(piece)?.[1] ?? "0", 16) & 0xc0) === 0x80;
}

/** The text of some pieces without the marker of a preceding space. */
function spell(pieces: string[]): string {
  const bytes = pieces.map((piece) => BYTE.exec(piece));
  if (bytes.every((found) => found !== null))
    return new TextDecoder().decode(Uint8Array.from(bytes, (found) => Number.parseInt(found[1], 16)));
  const text = pieces.join("");
  if (text === SPACE_MARKER) return "␣";
  return text.startsWith(SPACE_MARKER) ? text.slice(1) : text;
}

/** The word that a piece belongs to. */
export function wordAt(words: readonly Word[], piece: number): Word {
  return words.find((word) => piece < word.to) ?? words[words.length - 1];
}

/** A text from pieces, some of which were exchanged: the markers of spaces stay where they are. */
export function swapWords(pieces: readonly string[], a: Word, b: Word): string {
  const [first, second] = a.from < b.from ? [a, b] : [b, a];
  const bare = (word: Word): string => pieces.slice(word.from, word.to).join("").replace(SPACE_MARKER, "");
  const marker = (word: Word): string => (pieces[word.from].startsWith(SPACE_MARKER) ? SPACE_MARKER : "");
  const parts = [
    ...pieces.slice(0, first.from),
    marker(first) + bare(second),
    ...pieces.slice(first.to, second.from),
    marker(second) + bare(first),
    ...pieces.slice(second.to),
  ];
  return parts.join("").replaceAll(SPACE_MARKER, " ").trim();
}
