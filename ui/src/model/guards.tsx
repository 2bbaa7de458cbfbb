// Whether the guards would hold back a training that drift requests now.
import { Box, Grid, Stack, Text } from "@chakra-ui/react";
import { TrainingCost } from "../actions/train";
import type { ModelDetails } from "../documents/types";
import { formatName, formatNumber } from "../format";
import { Shape } from "../widgets/icon";
import { EmptyNote, Panel, SmallText } from "../widgets/panel";

/** Show whether drift would start a training now, and the answer of each guard. */
export function Guards({ details }: { details: ModelDetails }) {
  const { guards, guards_as_of: asOf } = details;
  const activeGuards = guards.filter((guard) => guard.why);
  if (!asOf)
    return (
      <Panel title="Would drift start a training?">
        <EmptyNote>There are no data yet.</EmptyNote>
      </Panel>
    );
  return (
    <Panel title="Would drift start a training?" note={`Answers of the guards as of ${asOf}`}>
      <Text fontSize="sm" fontWeight="medium">
        {summarize(details)}
      </Text>
      <Triggers details={details} />
      <Stack as="ul" gap={1} mt={2} listStyleType="none" fontSize="sm">
        {guards.map(({ guard, why, until }) => (
          <Grid as="li" key={guard} templateColumns="1rem 7rem 1fr" gap={2} alignItems="start">
            <Box mt={0.5}>
              <Shape name={why ? "pause" : "check"} color={why ? "orange.fg" : "green.fg"} />
            </Box>
            <Text>{formatName(guard)}</Text>
            <Text color={why ? undefined : "fg.muted"} overflowWrap="anywhere">
              {why ? `holds it back: ${why}` : "does not hold it back"}
              {why && until && `; not from ${until} on`}
            </Text>
          </Grid>
        ))}
      </Stack>
      {activeGuards.length > 0 && (
        <Box mt={2}>
          <SmallText>A person can start a training nevertheless.</SmallText>
        </Box>
      )}
      <Box fontSize="xs" color="fg.muted">
        <TrainingCost details={details} />
      </Box>
    </Panel>
  );
}

/** Say which drift requests a training, and when a training is due by its age. */
function Triggers({ details }: { details: ModelDetails }) {
  const { retrain_on: retrainOn, training_age: age, guards_as_of: asOf } = details;
  const sentences = [];
  if (retrainOn === "performance")
    sentences.push("Only a loss of performance requests a training; other drift does not.");
  if (retrainOn === "any") sentences.push("Drift of any column requests a training.");
  if (age) {
    const state = asOf && asOf >= age.due_on ? "is due now" : `is due on ${age.due_on}`;
    sentences.push(
      `Without drift, the next training ${state}: ${formatNumber(age.max_age_days, "day")} after the last one, as of ${age.last_as_of}.`,
    );
  } else if (age === null && retrainOn) sentences.push("The age of the model requests no training.");
  return sentences.length === 0 ? null : (
    <Text mt={1} fontSize="sm">
      {sentences.join(" ")}
    </Text>
  );
}

/** Summarize in a sentence whether drift would start a training. */
function summarize({ guards }: ModelDetails): string {
  const activeGuards = guards.filter((guard) => guard.why);
  if (activeGuards.length === 0) return "Yes: no guard would hold it back.";
  if (activeGuards.some((guard) => guard.until === null)) {
    const names = activeGuards.filter((guard) => guard.until === null).map((guard) => formatName(guard.guard));
    return `No, and waiting is not enough: see ${names.join(", ")}.`;
  }
  const until = activeGuards
    .map((guard) => guard.until ?? "")
    .sort()
    .at(-1);
  return `No. From ${until} on, no guard would hold it back.`;
}
