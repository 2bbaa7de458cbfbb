// How often each expectation failed.
import { Badge, Box, HStack } from "@chakra-ui/react";
import type { ExpectationFailures } from "../documents/types";
import { formatCount } from "../format";
import { EmptyNote, Panel } from "../widgets/panel";
import { DataTable } from "../widgets/table";

const PALETTES: Record<string, string> = { critical: "red", warning: "orange", info: "gray" };

/** Show the expectations that failed, the most frequent first. */
export function Failures({ failures }: { failures: ExpectationFailures[] }) {
  const maxPartitions = Math.max(1, ...failures.map(({ partitions }) => partitions));
  return (
    <Panel title="Failures by expectation" note="Number of partitions whose last validation failed the expectation">
      {failures.length === 0 ? (
        <EmptyNote>No expectation fails.</EmptyNote>
      ) : (
        <DataTable
          label="Failures"
          rows={failures}
          getKey={({ expectation, column }) => `${expectation} ${column}`}
          columns={[
            { title: "Expectation", render: (row) => row.expectation },
            { title: "Column", render: (row) => row.column || "(table)" },
            {
              title: "Severity",
              render: (row) => (
                <Badge size="xs" colorPalette={PALETTES[row.severity] ?? "gray"}>
                  {row.severity}
                </Badge>
              ),
            },
            {
              title: "Partitions",
              render: (row) => (
                <HStack gap={2}>
                  <Box width="2.5rem" textAlign="end">
                    {formatCount(row.partitions)}
                  </Box>
                  <Box
                    height="8px"
                    bg="blue.solid"
                    opacity={0.6}
                    borderRadius="1px"
                    style={{ width: `${(row.partitions / maxPartitions) * 90}px` }}
                  />
                </HStack>
              ),
            },
            { title: "Newest", render: (row) => row.newest_partition },
            { title: "Observed", wraps: true, render: (row) => row.example },
          ]}
        />
      )}
    </Panel>
  );
}
