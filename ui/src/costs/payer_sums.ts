// Costs by who pays, summed.
import type { PayerCost } from "../documents/types";

/** Fields by which costs are summed. */
export const PAYERS = ["team", "project", "model", "dataset", "environment", "user"] as const;
export type Payer = (typeof PAYERS)[number];

export interface PayerSum {
  /** Name of the payer; empty for costs of which nothing says who pays. */
  name: string;
  usd: number;
  idleUsd: number;
  /** Part that stated commitments cover; null if it is not known. */
  reservedUsd: number | null;
  /** Share of the sum of all payers, 0 to 1. */
  share: number;
}

/** Return the months, the newest first. */
export const listMonths = (rows: PayerCost[]): string[] =>
  [...new Set(rows.map(({ month }) => month))].sort().reverse();

/** Sum the costs of a month by a field, the largest sum first. */
export function sumPayers(rows: PayerCost[], month: string, field: Payer): PayerSum[] {
  const sums = new Map<string, Omit<PayerSum, "name" | "share">>();
  let all = 0;
  for (const row of rows.filter((each) => each.month === month)) {
    const { usd, idleUsd, reservedUsd } = sums.get(row[field]) ?? { usd: 0, idleUsd: 0, reservedUsd: 0 };
    const reserved = row.reserved_usd ?? null;
    sums.set(row[field], {
      usd: usd + row.cost_usd,
      idleUsd: idleUsd + row.idle_usd,
      reservedUsd: reservedUsd === null || reserved === null ? null : reservedUsd + reserved,
    });
    all += row.cost_usd;
  }
  return [...sums]
    .map(([name, sum]) => ({ name, ...sum, share: all > 0 ? sum.usd / all : 0 }))
    .sort((a, b) => b.usd - a.usd);
}
