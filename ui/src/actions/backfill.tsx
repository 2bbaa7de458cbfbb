// Start a backfill. Its runs must be listed first.
import { Box, Button, HStack, Text } from "@chakra-ui/react";
import { type ReactNode, useState } from "react";
import { planBackfill } from "../airflow/api";
import { useAirflow } from "../airflow/state";
import type { BackfillRequest, PlannedRun } from "../airflow/types";
import { formatMoment, formatNumber } from "../format";
import { RequestError } from "../request";
import { Notice } from "../widgets/notice";
import { ActionDialog } from "./dialog";
import { ChoiceField, DayField } from "./fields";
import { useObstacle } from "./run_action";
import { findNewestId, startOneBackfill } from "./start_backfill";
import { describeError, useAction } from "./use_action";

type Repeat = BackfillRequest["reprocess_behavior"];

const REPEATS: Record<Repeat, string> = {
  none: "leave it",
  failed: "repeat it if it failed",
  completed: "repeat it",
};

interface BackfillProps {
  dagId: string;
  first: string;
  last: string;
  maxActiveRuns: number;
  /** What the runs do. */
  effect: ReactNode;
  /** Returns a text about the cost of a number of runs. */
  renderCost?: (runs: number) => ReactNode;
}

/** Offer a backfill of a DAG. */
export function Backfill({ dagId, first, last, maxActiveRuns, effect, renderCost }: BackfillProps) {
  const [from, setFrom] = useState(first);
  const [to, setTo] = useState(last);
  const [repeat, setRepeat] = useState<Repeat>("none");
  const [list, setList] = useState<{ key: string; runs: PlannedRun[]; newestId: number }>();
  const { refresh } = useAirflow();
  const request = buildRequest(dagId, from, to, repeat, maxActiveRuns);
  const key = JSON.stringify(request);
  // The list may be for other days, which the visitor chose before.
  const plan = list?.key === key ? list.runs : undefined;
  const action = useAction(() => startOneBackfill(request, list?.newestId ?? 0), refresh);
  const listing = useAction(
    async () => {
      const newestId = await findNewestId(dagId);
      const runs = await planBackfill(request);
      setList({ key, runs, newestId });
      return { text: formatNumber(runs.length, "run") };
    },
    () => undefined,
  );
  return (
    <ActionDialog
      button="Backfill"
      title={`Backfill ${dagId}?`}
      consequences={effect}
      confirm={plan?.length ? `Start ${formatNumber(plan.length, "run")}` : "Start the runs"}
      isReady={Boolean(plan?.length)}
      obstacle={useObstacle(dagId)}
      action={action}
      onOpen={() => setList(undefined)}
    >
      <HStack align="end" wrap="wrap" gap={3}>
        <Box>
          <DayField label="From" value={from} onChange={setFrom} />
        </Box>
        <Box>
          <DayField label="To, included" value={to} onChange={setTo} />
        </Box>
        <Box>
          <ChoiceField label="If there is a run already" value={repeat} options={REPEATS} onChange={setRepeat} />
        </Box>
        <Button size="sm" variant="outline" onClick={listing.send} loading={listing.isSending} disabled={!from || !to}>
          List the runs
        </Button>
      </HStack>
      {listing.error && <PlanError error={listing.error} />}
      {plan && <Plan runs={plan} />}
      {plan && plan.length > 0 && renderCost?.(plan.length)}
    </ActionDialog>
  );
}

function buildRequest(dagId: string, from: string, to: string, repeat: Repeat, maxActiveRuns: number): BackfillRequest {
  return {
    dag_id: dagId,
    from_date: `${from}T00:00:00Z`,
    to_date: `${to}T00:00:00Z`,
    max_active_runs: maxActiveRuns,
    reprocess_behavior: repeat,
    run_backwards: false,
    dag_run_conf: {},
  };
}

function PlanError({ error }: { error: RequestError }) {
  const { title, text } = describeError(error);
  return (
    <Notice status="error" title={title}>
      {text}
    </Notice>
  );
}

/** List the runs that a backfill would start. */
function Plan({ runs }: { runs: PlannedRun[] }) {
  if (runs.length === 0)
    return <Notice status="info">No run would start: each of these days has a run already, or needs none.</Notice>;
  const names = runs.map((run) => run.partition_key ?? formatMoment(run.logical_date));
  return (
    <Box>
      <Text mb={1}>{formatNumber(runs.length, "run")} would start:</Text>
      <Box
        maxH="9rem"
        overflow="auto"
        borderWidth="1px"
        borderRadius="sm"
        p={2}
        tabIndex={0}
        role="region"
        aria-label="Runs"
      >
        <Text fontSize="xs" fontVariantNumeric="tabular-nums">
          {names.join(", ")}
        </Text>
      </Box>
    </Box>
  );
}
