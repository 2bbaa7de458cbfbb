// The partitions that are not published with all their rows.
import { Button } from "@chakra-ui/react";
import { useState } from "react";
import type { PartitionState } from "../documents/types";
import { formatCount, formatMoment, formatNumber } from "../format";
import { ExternalLink } from "../links";
import { EmptyNote, Panel } from "../widgets/panel";
import { DataTable } from "../widgets/table";
import { formatState } from "./states";

const FEW = 10;

/** Show partitions as a table. */
export function PartitionTable({ partitions, label }: { partitions: PartitionState[]; label: string }) {
  return (
    <DataTable
      label={label}
      rows={partitions}
      getKey={({ partition }) => partition}
      maxHeight="28rem"
      columns={[
        { title: "Partition", render: (row) => row.partition },
        { title: "State", render: (row) => formatState(row.state) },
        { title: "Rows", isNumber: true, render: (row) => formatCount(row.rows) },
        { title: "In quarantine", isNumber: true, render: (row) => formatCount(row.quarantined_rows) },
        { title: "Failed expectations", wraps: true, render: (row) => row.failures.join("; ") },
        { title: "Validated at", render: (row) => formatMoment(row.validated_at) || "never" },
        { title: "Result", render: (row) => <ExternalLink address={row.url}>data docs</ExternalLink> },
      ]}
    />
  );
}

/** List all findings, newest first. */
export function Findings({ partitions }: { partitions: PartitionState[] }) {
  const [isExpanded, setExpanded] = useState(false);
  const findings = partitions.filter(({ state }) => state !== "published").toReversed();
  return (
    <Panel
      title="Findings"
      note={`${formatNumber(findings.length, "partition")} quarantined, refused, stale or not validated, newest first`}
    >
      {findings.length === 0 ? (
        <EmptyNote>All partitions are published with all their rows.</EmptyNote>
      ) : (
        <PartitionTable partitions={isExpanded ? findings : findings.slice(0, FEW)} label="Findings" />
      )}
      {findings.length > FEW && (
        <Button size="2xs" variant="ghost" mt={1} onClick={() => setExpanded(!isExpanded)}>
          {isExpanded ? `Show the newest ${FEW}` : `Show all ${findings.length}`}
        </Button>
      )}
    </Panel>
  );
}
