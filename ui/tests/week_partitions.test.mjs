import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { listWeekPartitions } = await load("model/week_partitions.ts");

const partition = (name, day) => ({ partition: name, day });
const list = (unit, partitions, week = "2013-01-28") =>
  listWeekPartitions({ unit, partitions }, week).map((each) => each.partition);

test("a week has its days, from Monday to Sunday", () => {
  const days = ["2013-01-27", "2013-01-28", "2013-02-03", "2013-02-04"].map((day) => partition(day, day));
  assert.deepEqual(list("day", days), ["2013-01-28", "2013-02-03"]);
  assert.deepEqual(list("day", days, "2013-03-04"), []);
});

test("a week has all hours of its days", () => {
  const hours = [partition("2013-02-03T23", "2013-02-03"), partition("2013-02-04T00", "2013-02-04")];
  assert.deepEqual(list("hour", hours), ["2013-02-03T23"]);
});

test("a week has each month that has a day in it", () => {
  const months = ["2012-12", "2013-01", "2013-02", "2013-03"].map((month) => partition(month, `${month}-01`));
  assert.deepEqual(list("month", months), ["2013-01", "2013-02"]);
  assert.deepEqual(list("month", months, "2013-02-11"), ["2013-02"]);
});
