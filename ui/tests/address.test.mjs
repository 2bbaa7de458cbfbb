import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { checkAddress } = await load("address.ts");

test("a link opens addresses of the web and of files", () => {
  for (const address of ["http://127.0.0.1:5000/#/models/a", "https://example.org/a b", "file:///docs/index.html"])
    assert.equal(checkAddress(address), address);
});

test("a link opens no address that could run a script, and none without a scheme", () => {
  const script = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " java\nscript:alert(1)", "\u0001javascript:alert(1)"];
  const other = ["data:text/html,<script>alert(1)</script>", "vbscript:x", "blob:https://example.org/1", "about:blank"];
  for (const address of [...script, ...other, "//example.org", "/docs", "example.org", ""])
    assert.equal(checkAddress(address), null, address);
});
