// Read the form of an approval, which is Markdown, into parts that React shows as text.

export type Part =
  | { kind: "table"; headers: string[]; rows: string[][] }
  | { kind: "text"; pieces: { text: string; address?: string }[] };

/** Split the text into tables and paragraphs. Any other Markdown or HTML stays as it is, as text. */
export function parseEvidence(body: string): Part[] {
  return body
    .split(/\n\s*\n/)
    .map((block) => block.trim())
    .filter(Boolean)
    .map((block) => (block.startsWith("|") ? parseTable(block) : { kind: "text", pieces: parseLinks(block) }));
}

function parseTable(block: string): Part {
  const [headers = [], , ...rows] = block.split("\n").map(parseRow);
  return { kind: "table", headers, rows };
}

/** Split a line at the bars that have no backslash before them. */
function parseRow(line: string): string[] {
  const cells =
    line
      .trim()
      .replace(/^\|/, "")
      .replace(/\|$/, "")
      .match(/(?:\\.|[^|\\])*(?:\||$)/g) ?? [];
  return cells.slice(0, -1).map((cell) => unescape(cell.replace(/\|$/, "").trim()));
}

function parseLinks(block: string): { text: string; address?: string }[] {
  const pieces: { text: string; address?: string }[] = [];
  let end = 0;
  for (const match of block.matchAll(/(?<!\\)\[((?:\\.|[^\]\\])*)\]\(([^)\s]*)\)/g)) {
    pieces.push({ text: unescape(block.slice(end, match.index)) });
    pieces.push({ text: unescape(match[1] ?? ""), address: match[2] ?? "" });
    end = match.index + match[0].length;
  }
  return [...pieces, { text: unescape(block.slice(end)) }].filter((piece) => piece.text);
}

/** Remove the backslashes that protect characters from Markdown. */
const unescape = (text: string): string => text.replace(/\\([\\`*_{}[\]()#+\-.!|<>~])/g, "$1");
