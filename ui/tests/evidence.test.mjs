import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { parseEvidence } = await load("actions/evidence.ts");
const { checkAddress } = await load("address.ts");

test("a table keeps bars that have a backslash, and empty cells", () => {
  const body = "|  | check | value |\n| --- | --- | --- |\n| passed | slope \\| all | 1.0 |\n| failed | p99 |  |";
  assert.deepEqual(parseEvidence(body), [
    {
      kind: "table",
      headers: ["", "check", "value"],
      rows: [
        ["passed", "slope | all", "1.0"],
        ["failed", "p99", ""],
      ],
    },
  ]);
});

test("links are pieces of their own, and HTML and escaped brackets stay text", () => {
  const [part] = parseEvidence("[The report](http://a/b.html): <b>\\[no\\]</b>(x)");
  assert.deepEqual(part.pieces, [{ text: "The report", address: "http://a/b.html" }, { text: ": <b>[no]</b>(x)" }]);
});

test("only addresses of pages and files may be opened", () => {
  for (const address of ["http://a/", "https://a/", "file:///tmp/x"]) assert.equal(checkAddress(address), address);
  for (const address of [
    "javascript:alert(1)",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,x",
    "",
    "a/b",
    "//a/b",
  ]) {
    assert.equal(checkAddress(address), null);
  }
});
