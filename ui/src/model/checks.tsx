// What the gate measured for the champion and the challenger, side by side.
import { Box } from "@chakra-ui/react";
import type { CheckResult, VersionFacts } from "../documents/types";
import { formatInterval, formatMetric } from "../format";
import { type Column, DataTable } from "../widgets/table";
import { SmallText } from "../widgets/panel";

interface Row {
  name: string;
  champion?: CheckResult;
  challenger?: CheckResult;
}

/** Show what the gate measured for each version; nothing if no verdict with values is recorded. */
export function Checks({ champion, challenger }: { champion: VersionFacts | null; challenger: VersionFacts | null }) {
  const rows = listRows(champion?.checks ?? [], challenger?.checks ?? []);
  if (rows.length === 0) return null;
  const columns: Column<Row>[] = [{ title: "Check", wraps: true, minWidth: "8rem", render: ({ name }) => name }];
  if (champion) columns.push({ title: `Champion, version ${champion.version}`, render: (row) => format(row.champion) });
  if (challenger)
    columns.push({ title: `Challenger, version ${challenger.version}`, render: (row) => format(row.challenger) });
  return (
    <Box mt={4}>
      <DataTable
        label="Checks of the gate"
        columns={columns}
        rows={rows}
        getKey={({ name }) => name}
        maxHeight="20rem"
      />
      <SmallText>
        The gate measured each version on the holdout of its own training. A check against the champion compares both
        versions on the same rows.
      </SmallText>
    </Box>
  );
}

/** List the checks of both versions by name; those of the challenger come first, in the order of its verdict. */
function listRows(champion: CheckResult[], challenger: CheckResult[]): Row[] {
  const names = new Set([...challenger, ...champion].map(({ name }) => name));
  return [...names].map((name) => ({
    name,
    champion: champion.find((check) => check.name === name),
    challenger: challenger.find((check) => check.name === name),
  }));
}

/** Format a value with its interval, and with its outcome unless it passed; empty if it was not measured. */
function format(check: CheckResult | undefined): string {
  if (!check || check.value === null) return check?.outcome ?? "";
  const interval = formatInterval(check.low, check.high);
  const outcome = check.outcome === "passed" || check.outcome === "reported" ? "" : check.outcome;
  return [formatMetric(check.value), interval && `(${interval})`, outcome].filter(Boolean).join(" ");
}
