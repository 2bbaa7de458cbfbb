// The health of a model, in a word.
import { Badge } from "@chakra-ui/react";
import type { ModelSummary } from "../documents/types";
import { type IconName, Shape } from "./icon";

type Health = ModelSummary["health"];

const LOOKS: Record<Health, { palette: string; icon: IconName }> = {
  ok: { palette: "green", icon: "check" },
  drift: { palette: "orange", icon: "wave" },
  failed: { palette: "red", icon: "cross" },
  "held back": { palette: "purple", icon: "pause" },
  "no champion": { palette: "gray", icon: "dash" },
};

/** All values, the most serious first. */
export const HEALTHS: Health[] = ["failed", "no champion", "held back", "drift", "ok"];

/** Show the health of a model. */
export function HealthBadge({ health }: { health: Health }) {
  const look = LOOKS[health] ?? { palette: "gray", icon: "dash" };
  return (
    <Badge colorPalette={look.palette} variant="subtle" size="sm" whiteSpace="nowrap">
      <Shape name={look.icon} /> {health}
    </Badge>
  );
}
