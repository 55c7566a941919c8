// Unicode normalisation, applied to every text before any other processing: the same as text/normalise.py.
//
// JavaScript does not know the decomposition of a character, so the table of folded characters comes with the model.

/** What a character is folded to: full-width letters, ligatures, unusual spaces and others. */
export type Folding = ReadonlyMap<string, string>;

const EMOJI =
  "[\\u00a9\\u00ae\\u203c\\u2049\\u2122\\u2139\\u2190-\\u21ff\\u2300-\\u23ff\\u24c2\\u25a0-\\u27bf\\u2900-\\u297f\\u2b00-\\u2bff" +
  "\\u3030\\u303d\\u3297\\u3299\\u{1f000}-\\u{1faff}]";
const EMOJI_UNIT = `${EMOJI}[\\u{1f3fb}-\\u{1f3ff}]?[\\ufe0e\\ufe0f]?`;
// Arabic, Indic, Burmese and Khmer use joiners between letters.
const JOINING = "[\\u0600-\\u0dff\\u1000-\\u109f\\u1780-\\u17ff]";
const INVISIBLE =
  "\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f\\u00ad\\u034f\\u061c\\u180e\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f" +
  "\\ufe00-\\ufe0f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}";
const MEANINGFUL_OR_INVISIBLE = new RegExp(
  "(\\u{1f3f4}[\\u{e0020}-\\u{e007e}]+\\u{e007f}" + // the flags of England, Scotland, Wales
    `|${EMOJI_UNIT}(?:\\u200d${EMOJI_UNIT})*` +
    "|[0-9#*]\\ufe0f?\\u20e3" +
    `|(?<=${JOINING})[\\u200c\\u200d](?=${JOINING}))` +
    "|\\x1b\\[[0-?]*[ -/]*[@-~]" + // a terminal colour as a whole, so that no "[31m" remains
    `|[${INVISIBLE}]`,
  "gu",
);
const HAS_INVISIBLE = new RegExp(`[${INVISIBLE}]`, "u");

/** Idempotent. */
export function normalise(text: string, folding: Folding): string {
  text = text.replace(/\p{Surrogate}/gu, "\ufffd");
  text = Array.from(text, (character) => folding.get(character) ?? character).join("").normalize("NFC");
  while (HAS_INVISIBLE.test(text)) {
    // Removing a character can bring combining marks together; repeat until nothing changes.
    const cleaned = text.replace(MEANINGFUL_OR_INVISIBLE, (_, meaningful: string | undefined) => meaningful ?? "").normalize("NFC");
    if (cleaned === text) break;
    text = cleaned;
  }
  return text.split(" ").filter(Boolean).join(" ");
}
