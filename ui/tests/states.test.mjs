import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { countStates } = await load("data/states.ts");

test("states are counted in words", () => {
  const partitions = ["published", "not_validated", "published"].map((state) => ({ state }));
  assert.equal(countStates(partitions), "2 published, 1 not validated");
});
