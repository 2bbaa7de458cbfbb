// What a job used of its instances.
import { Box, Grid, Text } from "@chakra-ui/react";
import type { JobUse, Use } from "../documents/types";
import { Bar } from "../widgets/bar";
import { SmallText } from "../widgets/panel";

const FULL = 0.9;
const formatShare = (share: number): string => `${Math.round(share * 100)} %`;
const UNKNOWN = "is not known: CloudWatch has no values of it for this job";
const NO_GPU = "is not known: CloudWatch has no values of it. It has some only of a job that uses a GPU";

/** Show CPU, memory and GPU of a job, each with its mean and its peak; a dash where it is not known. */
export function UseBars({ use }: { use: JobUse | null | undefined }) {
  if (!use)
    return <Unknown text="The utilization of the instances is not known: an earlier version of Leeway wrote this." />;
  const { cores, cpu, memory, gpu, gpu_memory: gpuMemory } = use;
  const gpuNote = gpuMemory ? `, its memory: ${describe(gpuMemory, 1)}` : "";
  return (
    <Grid
      templateColumns="max-content minmax(20px, 56px) max-content"
      columnGap={2}
      rowGap="1px"
      alignItems="center"
      fontSize="xs"
    >
      <UseBar title="CPU" use={cpu} units={cores ?? 1} note={cores ? ` of ${cores} vCPUs` : " of one core"} />
      <UseBar title="Memory" use={memory} units={1} note="" warns />
      <UseBar title="GPU" use={gpu} units={1} note={gpuNote} unknown={NO_GPU} />
    </Grid>
  );
}

interface UseBarProps {
  title: string;
  use: Use | null;
  /** Percentage at full use, divided by 100: the number of vCPUs for the CPU, and 1 for other resources. */
  units: number;
  /** Text after the description of the values. */
  note: string;
  /** Why the use is not known: the end of the sentence that begins with the title. */
  unknown?: string;
  /** Whether a peak above 90 % is a problem. */
  warns?: boolean;
}

/** Draw the use of one resource as a bar: the mean dark, the peak light. */
function UseBar({ title, use, units, note, unknown = UNKNOWN, warns = false }: UseBarProps) {
  if (!use) {
    return (
      <>
        <SmallText>{title}</SmallText>
        <Unknown text={`${title} ${unknown}.`} />
        <span />
      </>
    );
  }
  const mean = use.mean / 100 / units;
  const peak = use.peak / 100 / units;
  const text = `${title}: ${describe(use, units)}${note}`;
  const color = warns && peak > FULL ? "red.solid" : "blue.solid";
  return (
    <>
      <SmallText>{title}</SmallText>
      <Bar share={mean} whole={peak} color={color} text={text} />
      <Text aria-hidden="true">
        {Math.round(mean * 100)} / {formatShare(peak)}
      </Text>
    </>
  );
}

/** Show a dash, and say why there is no number. */
function Unknown({ text }: { text: string }) {
  return (
    <Box as="span" role="img" aria-label={text} title={text} color="fg.muted" cursor="help" width="max-content">
      –
    </Box>
  );
}

const describe = (use: Use, units: number): string =>
  `mean ${formatShare(use.mean / 100 / units)}, peak ${formatShare(use.peak / 100 / units)}`;
