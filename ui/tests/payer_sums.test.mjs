import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { listMonths, sumPayers } = await load("costs/payer_sums.ts");

const pay = (month, team, model, cost, idle = 0, reserved = 0) => ({
  ...{ month, team, model },
  ...{ cost_usd: cost, idle_usd: idle, reserved_usd: reserved },
});
const rows = [
  pay("2013-12", "sales", "churn", 100),
  pay("2014-01", "sales", "churn", 1, 0.5),
  pay("2014-01", "operations", "flights", 2, 0, 0.5),
  pay("2014-01", "operations", "delays", 4, 1, 1.5),
  pay("2014-01", "", "", 1),
];

test("costs of a month are summed by a field, the largest first", () => {
  assert.deepEqual(sumPayers(rows, "2014-01", "team"), [
    { name: "operations", usd: 6, idleUsd: 1, reservedUsd: 2, share: 0.75 },
    { name: "sales", usd: 1, idleUsd: 0.5, reservedUsd: 0, share: 0.125 },
    { name: "", usd: 1, idleUsd: 0, reservedUsd: 0, share: 0.125 },
  ]);
  assert.deepEqual(
    sumPayers(rows, "2014-01", "model").map(({ name }) => name),
    ["delays", "flights", "churn", ""],
  );
});

test("a reserved part that is not known makes the sum unknown", () => {
  const unknown = [
    ...rows,
    pay("2014-01", "sales", "churn", 1, 0, null),
    { ...pay("2014-01", "old", "m", 1), reserved_usd: undefined },
  ];
  const sums = sumPayers(unknown, "2014-01", "team").map(({ name, reservedUsd }) => [name, reservedUsd]);
  assert.deepEqual(Object.fromEntries(sums), { operations: 2, sales: null, old: null, "": 0 });
});

test("a month without costs has shares of 0, and there is no other month", () => {
  assert.deepEqual(sumPayers([pay("2014-01", "sales", "churn", 0)], "2014-01", "team")[0].share, 0);
  assert.deepEqual(sumPayers(rows, "2014-02", "team"), []);
  assert.deepEqual(listMonths(rows), ["2014-01", "2013-12"]);
});
