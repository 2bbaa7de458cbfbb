// Who pays the costs of a month.
import { Flex, NativeSelect } from "@chakra-ui/react";
import { useState } from "react";
import type { PayerCost } from "../documents/types";
import { formatPercent, formatUsd } from "../format";
import { Bar } from "../widgets/bar";
import { EmptyNote, Panel } from "../widgets/panel";
import { type Column, DataTable } from "../widgets/table";
import { listMonths, type Payer, PAYERS, type PayerSum, sumPayers } from "./payer_sums";

const formatShare = ({ name, share }: PayerSum): string => `${name || "unallocated"}: ${formatPercent(share)}`;

const COLUMNS: Column<PayerSum>[] = [
  { title: "Payer", wraps: true, minWidth: "7rem", render: ({ name }) => name || "unallocated" },
  { title: "Cost, USD", isNumber: true, render: ({ usd }) => formatUsd(usd, 2) },
  { title: "Idle, USD", isNumber: true, render: ({ idleUsd }) => formatUsd(idleUsd, 2) },
  { title: "Reserved, USD", isNumber: true, render: ({ reservedUsd }) => formatUsd(reservedUsd, 2) },
  { title: "Share", isNumber: true, render: ({ share }) => formatPercent(share) },
  {
    title: "Share as bar",
    wraps: true,
    minWidth: "6rem",
    render: (sum) => <Bar share={sum.share} whole={sum.share} color="blue.500" text={formatShare(sum)} />,
  },
];

interface PayersProps {
  payers: PayerCost[];
  /** Month to the unused part of its commitments, USD; null if no commitment is stated. */
  unusedCommitments: Record<string, number> | null;
}

/** Show the costs of a month by team or another field. */
export function Payers({ payers, unusedCommitments }: PayersProps) {
  const months = listMonths(payers);
  const [field, setField] = useState<Payer>("team");
  const [chosenMonth, setMonth] = useState("");
  const month = months.includes(chosenMonth) ? chosenMonth : (months[0] ?? "");
  const choices = (
    <Flex gap={2}>
      <Choice label="Sum by" value={field} values={PAYERS} onChange={(value) => setField(value as Payer)} />
      <Choice label="Month of the costs" value={month} values={months} onChange={setMonth} />
    </Flex>
  );
  return (
    <Panel
      title="Who pays"
      note={
        "Unallocated: nothing says who pays. Idle: cost of what the instances did not use, as far as it is known. " +
        `Reserved: what commitments cover, at on-demand prices. ${describeUnused(unusedCommitments, month)}`
      }
      actions={choices}
    >
      {months.length === 0 ? (
        <EmptyNote>Nothing was spent yet.</EmptyNote>
      ) : (
        <DataTable
          label="Costs by payer"
          rows={sumPayers(payers, month, field)}
          getKey={({ name }) => name}
          columns={COLUMNS}
          maxHeight="20rem"
        />
      )}
    </Panel>
  );
}

function describeUnused(unusedCommitments: Record<string, number> | null, month: string): string {
  if (unusedCommitments === null) return "No commitment is stated.";
  return `Unused commitment: ${formatUsd(unusedCommitments[month] ?? 0, 2)} USD.`;
}

interface ChoiceProps {
  label: string;
  value: string;
  values: readonly string[];
  onChange: (value: string) => void;
}

function Choice({ label, value, values, onChange }: ChoiceProps) {
  return (
    <NativeSelect.Root size="xs" width="8rem">
      <NativeSelect.Field aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
        {values.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </NativeSelect.Field>
      <NativeSelect.Indicator />
    </NativeSelect.Root>
  );
}
