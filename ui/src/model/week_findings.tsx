// The partitions of a week of which something is or was wrong.
import { Text } from "@chakra-ui/react";
import type { PartitionState } from "../documents/types";
import { formatState } from "../data/states";
import { formatCount, formatMoment, formatNumber } from "../format";
import { ExternalLink } from "../links";
import { SmallText } from "../widgets/panel";
import { DataTable } from "../widgets/table";
import { findKnown } from "./week_known";

const MAX_OPEN = 10;

interface FindingsProps {
  partitions: PartitionState[];
  /** The day at whose end the earlier state is shown. */
  day: string;
  label: string;
}

/** Show for each partition what was known at the end of a day, and what is known now. */
export function WeekFindings({ partitions, day, label }: FindingsProps) {
  const rows = partitions.map((partition) => ({ partition, known: findKnown(partition, day) }));
  return (
    <DataTable
      label={label}
      rows={rows}
      getKey={({ partition }) => partition.partition}
      maxHeight={rows.length > MAX_OPEN ? "28rem" : undefined}
      columns={[
        { title: "Partition", render: ({ partition }) => partition.partition },
        {
          title: "Known then",
          wraps: true,
          render: ({ known }) =>
            known ? (
              <Result result={known.result} failures={known.failures} at={known.at} />
            ) : (
              <Text color="fg.muted">not validated yet</Text>
            ),
        },
        {
          title: "Now",
          wraps: true,
          render: ({ partition, known }) =>
            known?.isLast ? (
              <Text color="fg.muted">the same, not validated again</Text>
            ) : (
              <Result result={formatState(partition.state)} failures={partition.failures} at={partition.validated_at} />
            ),
        },
        {
          title: "Rows now",
          isNumber: true,
          render: ({ partition: { rows: published, quarantined_rows: quarantined } }) => (
            <>
              <Text>{formatCount(published)}</Text>
              {quarantined > 0 && <SmallText>{formatNumber(quarantined, "row")} in quarantine</SmallText>}
            </>
          ),
        },
        {
          title: "Last result",
          render: ({ partition }) => <ExternalLink address={partition.url}>data docs</ExternalLink>,
        },
      ]}
    />
  );
}

/** Show the result of a validation, what failed, and when it was. */
function Result({ result, failures, at }: { result: string; failures: string[]; at: string | null }) {
  return (
    <>
      <Text>{result}</Text>
      {failures.length > 0 && <Text fontSize="xs">{failures.join("; ")}</Text>}
      <SmallText>{at === null ? "never validated" : `validated at ${formatMoment(at)}`}</SmallText>
    </>
  );
}
