// How rows in quarantine are published.
import { Box, Text } from "@chakra-ui/react";
import type { DatasetDetails } from "../documents/types";
import { formatNumber } from "../format";
import { CodeText } from "../widgets/code_text";

/** Say how many rows are in quarantine, and with which command they are validated again. */
export function Quarantine({ details }: { details: DatasetDetails }) {
  const quarantined = details.partitions.filter((partition) => partition.quarantined_rows > 0);
  const rows = quarantined.reduce((sum, partition) => sum + partition.quarantined_rows, 0);
  const [first, last] = [quarantined[0]?.day, quarantined.at(-1)?.day];
  if (rows === 0) return null;
  const dataset = details.rows_from || details.dataset;
  const command = `python -m pipelines quarantine release --dataset ${dataset} --from ${first} --to ${last}`;
  return (
    <Box fontSize="sm" mt={3}>
      <Text overflowWrap="anywhere">
        In quarantine: {formatNumber(rows, "row")} of {formatNumber(quarantined.length, "partition")}. This command
        validates them again and publishes those that pass: <CodeText text={`\`${command}\``} />
      </Text>
    </Box>
  );
}
