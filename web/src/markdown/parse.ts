// A small part of Markdown: headings, paragraphs, lists, tables, code; bold, emphasis, code and links within a line.

export type Inline = { kind: "text" | "strong" | "em" | "code"; text: string } | { kind: "link"; text: string; address: string };

export type Block =
  | { kind: "heading"; level: number; content: Inline[] }
  | { kind: "paragraph"; content: Inline[] }
  | { kind: "list"; ordered: boolean; items: Inline[][] }
  | { kind: "table"; rows: Inline[][][] }
  | { kind: "code"; text: string };

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*|\[([^\]]+)\]\(([^)\s]+)\)/g;

export function parseInline(text: string): Inline[] {
  const found: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) found.push({ kind: "text", text: text.slice(from, match.index) });
    const [whole, code, strong, em, link, address] = match;
    if (code !== undefined) found.push({ kind: "code", text: code });
    else if (strong !== undefined) found.push({ kind: "strong", text: strong });
    else if (em !== undefined) found.push({ kind: "em", text: em });
    else found.push({ kind: "link", text: link, address });
    from = match.index + whole.length;
  }
  if (from < text.length) found.push({ kind: "text", text: text.slice(from) });
  return found;
}

const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;
const cells = (line: string): string[] =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => cell.trim());

export function parseMarkdown(text: string): Block[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  const take = (accepts: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && accepts(lines[at])) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line);
    if (!line.trim()) at++;
    else if (heading) {
      blocks.push({ kind: "heading", level: heading[1].length, content: parseInline(heading[2]) });
      at++;
    } else if (line.startsWith("```")) {
      at++;
      blocks.push({ kind: "code", text: take((one) => !one.startsWith("```")).join("\n") });
      at++;
    } else if (line.trim().startsWith("|")) {
      const rows = take((one) => one.trim().startsWith("|")).filter((one) => !/^[\s|:-]+$/.test(one));
      blocks.push({ kind: "table", rows: rows.map((row) => cells(row).map(parseInline)) });
    } else if (ITEM.test(line)) {
      const items = take((one) => one.trim() !== "" && !HEADING.test(one));
      blocks.push({ kind: "list", ordered: /^\s*\d/.test(line), items: joinItems(items).map(parseInline) });
    } else {
      const isText = (one: string): boolean => Boolean(one.trim()) && !HEADING.test(one) && !ITEM.test(one) && !/^(\||```)/.test(one.trim());
      blocks.push({ kind: "paragraph", content: parseInline(joinLines(take(isText))) });
    }
  }
  return blocks;
}

/** Lines that do not begin with a marker belong to the item before. */
function joinItems(lines: string[]): string[] {
  const items: string[][] = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item) items.push([item[2]]);
    else items.at(-1)?.push(line);
  }
  return items.map(joinLines);
}

/** Chinese lines are joined without a space. */
function joinLines(lines: string[]): string {
  return lines
    .map((line) => line.trim())
    .reduce((text, line) => (/[⺀-￯]$/u.test(text) && /^[⺀-￯]/u.test(line) ? text + line : `${text} ${line}`));
}
