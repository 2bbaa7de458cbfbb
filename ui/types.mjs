// Write src/documents/types.ts from documents.schema.json, which tools/page_schema.py writes.
import { readFileSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const simplify = (node) => {
  if (Array.isArray(node)) return node.map(simplify);
  if (node === null || typeof node !== "object") return node;
  // A description beside a reference would make a second type of the same message.
  if ("$ref" in node) return { $ref: node.$ref };
  return Object.fromEntries(
    Object.entries(node)
      // A title of a field would become a type of its own.
      .filter(([key, value]) => !(key === "title" && typeof value === "string"))
      .map(([key, value]) => [key, simplify(value)]),
  );
};
const schema = simplify(JSON.parse(readFileSync(new URL("documents.schema.json", import.meta.url), "utf8")));
const bannerComment = "/* Written by `npm --prefix ui run types` from documents.schema.json. Do not edit. */";
const code = await compile(schema, "Documents", {
  bannerComment,
  additionalProperties: false,
  style: { printWidth: 120 },
});
writeFileSync(new URL("src/documents/types.ts", import.meta.url), code);
