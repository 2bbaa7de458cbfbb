// What versions were made from, and what they were used for.
import { Box, Grid, Stack, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import type { VersionLineage } from "../documents/types";
import { formatCount, formatDay, formatMoment, formatNumber } from "../format";
import { ExternalLink, LinkedText, RunLink } from "../links";
import { CodeText } from "../widgets/code_text";
import { Disclosure } from "../widgets/disclosure";
import { SmallText } from "../widgets/panel";
import type { WeekVersion } from "./week_versions";

const DIGEST_CHARS = 12;
const DIRTY = "-dirty";
const MAX_OPEN = 3;

/** List the lineage of the versions of a week; if there are many, of the first ones, and of the others on request. */
export function Lineages({ model, versions }: { model: string; versions: WeekVersion[] }) {
  const list = (part: WeekVersion[]) => (
    <Stack gap={4}>
      {part.map(({ lineage, roles }) => (
        <Box key={lineage.version} minW={0}>
          <Text fontSize="sm" mb={1}>
            <b>Version {lineage.version}</b>
            {roles.length > 0 && `: ${roles.join(", ")}`}
          </Text>
          <Lineage model={model} lineage={lineage} />
        </Box>
      ))}
    </Stack>
  );
  const hiddenVersions = versions.slice(MAX_OPEN);
  return (
    <>
      {list(versions.slice(0, MAX_OPEN))}
      {hiddenVersions.length > 0 && (
        <Disclosure title={`Show ${formatNumber(hiddenVersions.length, "other version")}`}>
          {() => list(hiddenVersions)}
        </Disclosure>
      )}
    </>
  );
}

/** Show the lineage of a version as a sequence of stages. */
export function Lineage({ model, lineage }: { model: string; lineage: VersionLineage }) {
  const stages = lineage.table
    ? [...listOrigin(lineage), { title: "Use until now", content: <Use lineage={lineage} /> }]
    : [
        { title: "Origin", content: <UnknownOrigin model={model} lineage={lineage} /> },
        { title: "Use until now", content: <Use lineage={lineage} /> },
      ];
  return (
    <Grid
      as="ol"
      aria-label={`Lineage of version ${lineage.version}`}
      listStyleType="none"
      templateColumns={{ base: "1fr", md: "repeat(auto-fit, minmax(11rem, 1fr))" }}
      gap={2}
      fontSize="13px"
    >
      {stages.map(({ title, content }, index) => (
        <Box as="li" key={title} borderWidth="1px" borderRadius="sm" px={2} py={1.5} minW={0} overflowWrap="anywhere">
          <Text fontSize="xs" color="fg.muted" fontWeight="medium">
            {index > 0 && <span aria-hidden="true">→ </span>}
            {title}
          </Text>
          {content}
        </Box>
      ))}
    </Grid>
  );
}

function listOrigin(lineage: VersionLineage): { title: string; content: ReactNode }[] {
  const { git_commit: commit, dvc_lock: lock } = lineage;
  return [
    {
      title: "Source",
      content: (
        <>
          <Text>
            table <LinkedText address={lineage.data_url}>{lineage.table}</LinkedText>
          </Text>
          <SmallText>snapshot {lineage.snapshot_id}</SmallText>
          <SmallText>as of {lineage.as_of}</SmallText>
        </>
      ),
    },
    {
      title: "Window",
      content: (
        <>
          <Text>trained on {lineage.training_days}</Text>
          <SmallText>{formatRows(lineage.rows_train)}</SmallText>
          <Text>judged on {lineage.holdout_days}</Text>
          <SmallText>{formatRows(lineage.rows_holdout)}</SmallText>
        </>
      ),
    },
    {
      title: "Code and features",
      content: (
        <>
          <Text title={commit}>commit {commit.replace(DIRTY, "").slice(0, DIGEST_CHARS)}</Text>
          {commit.endsWith(DIRTY) && <SmallText>with changes that were not committed</SmallText>}
          <SmallText>features {lineage.data_version}</SmallText>
          {lock && lock !== "none" && (
            <Text fontSize="xs" color="fg.muted" title={lock}>
              dvc.lock {lock.slice(0, DIGEST_CHARS)}
            </Text>
          )}
        </>
      ),
    },
    {
      title: "Training",
      content: (
        <>
          {lineage.run ? <RunLink run={lineage.run} /> : <Text>outside of Airflow</Text>}
          {lineage.training_job && <SmallText>job {lineage.training_job}</SmallText>}
        </>
      ),
    },
    {
      title: "Version",
      content: (
        <>
          <Text>
            {lineage.version} <ExternalLink address={lineage.mlflow_url}>MLflow</ExternalLink>{" "}
            <ExternalLink address={lineage.report_url}>report</ExternalLink>
          </Text>
          <SmallText>registered at {formatMoment(lineage.registered_at)}</SmallText>
          <Text fontSize="xs" color="fg.muted" title={lineage.model_digest}>
            files {lineage.model_digest.slice(0, DIGEST_CHARS)}
          </Text>
        </>
      ),
    },
  ];
}

/** Say that the registration does not name the origin, and where it may be found. */
function UnknownOrigin({ model, lineage }: { model: string; lineage: VersionLineage }) {
  return (
    <>
      <Text>
        <CodeText text="The lake does not have it: it is recorded when a version is registered by `evaluate`." />
      </Text>
      <SmallText>
        <CodeText text={`\`python -m pipelines lineage ${model}@${lineage.version}\` reads MLflow. `} />
        <ExternalLink address={lineage.mlflow_url}>MLflow</ExternalLink>
      </SmallText>
    </>
  );
}

function Use({ lineage: { scored, services } }: { lineage: VersionLineage }) {
  return (
    <>
      {scored && (
        <>
          <Text>
            {formatNumber(scored.rows, "row")} of {formatNumber(scored.days, "day")} scored
          </Text>
          <SmallText>
            {scored.first} to {scored.last}, in {scored.table}
          </SmallText>
        </>
      )}
      {services.map(({ endpoint, since, until }) => (
        <Box key={`${endpoint} ${since}`}>
          <Text>endpoint {endpoint}</Text>
          <SmallText>
            {formatDay(since)} to {until ? formatDay(until) : "now"}
          </SmallText>
        </Box>
      ))}
      {!scored && services.length === 0 && <Text color="fg.muted">none is known</Text>}
    </>
  );
}

/** Format a number of rows, which is a text in the registration. */
const formatRows = (rows: string): string => (/^\d+$/.test(rows) ? `${formatCount(Number(rows))} rows` : rows);
