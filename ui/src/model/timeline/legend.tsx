// What the shapes and colors of the history mean.
import { Box, Flex, HStack, Text } from "@chakra-ui/react";
import { COLORS } from "../../charts/chart";

const SHAPES = [
  { path: "M6 2 10.5 10h-9z", color: COLORS.blue, text: "promoted, deployed" },
  { path: "M6 10 1.5 2h9z", color: COLORS.red, text: "rolled back" },
  { path: "M6 2.5a3.5 3.5 0 1 0 .01 0", color: COLORS.green, text: "passed" },
  { path: "M2.5 2.5l7 7M9.5 2.5l-7 7", color: COLORS.red, text: "failed or not passed" },
  { path: "M2.5 2.5l7 7M9.5 2.5l-7 7", color: COLORS.orange, text: "held back" },
  { path: "M2.5 2.5h7v7h-7z", color: COLORS.orange, text: "drift" },
];
const EFFECTS = [
  { color: COLORS.blue, opacity: 0.4, text: "0" },
  { color: COLORS.blue, opacity: 0.1, text: "" },
  { color: COLORS.red, opacity: 0.3, text: "1" },
  { color: COLORS.red, opacity: 1, text: "2 of the bound" },
];

/** Explain the charts of the history. */
export function Legend() {
  return (
    <Flex wrap="wrap" columnGap={4} rowGap={1} mt={2} fontSize="xs" color="fg.muted">
      {SHAPES.map(({ path, color, text }) => (
        <HStack key={text} gap={1}>
          <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
            <path d={path} stroke={color} fill={color} fillOpacity="0.35" strokeWidth="1.5" />
          </svg>
          <Text>{text}</Text>
        </HStack>
      ))}
      <HStack gap={1}>
        <Text>effect</Text>
        {EFFECTS.map(({ color, opacity, text }, index) => (
          <HStack key={index} gap={1}>
            <Box width="14px" height="12px" style={{ background: color, opacity }} />
            <Text>{text}</Text>
          </HStack>
        ))}
      </HStack>
    </Flex>
  );
}
