// Small shapes, so that no state is shown by a color alone.
import { Icon } from "@chakra-ui/react";

const PATHS = {
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  wave: "M1.5 9.5c2-5 4.5-5 6.5-1.5s4.5 3.5 6.5-1.5",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  dash: "M3 8h10",
  warning: "M8 2.5 14.5 13.5h-13zM8 7v3M8 11.6v.3",
  play: "M5 3.5v9l7-4.5z",
};

export type IconName = keyof typeof PATHS;

/** Draw an icon. The text beside it says the same, so screen readers skip it. */
export function Shape({ name, color }: { name: IconName; color?: string }) {
  return (
    <Icon size="sm" color={color} flexShrink={0} asChild>
      <svg viewBox="0 0 16 16" aria-hidden="true" focusable="false">
        <path
          d={PATHS[name]}
          fill="none"
          stroke="currentColor"
          strokeWidth="1.8"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
      </svg>
    </Icon>
  );
}
