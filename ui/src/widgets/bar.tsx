// A bar of two shares.
import { Box } from "@chakra-ui/react";

interface BarProps {
  /** Part of the width that is dark, 0 to 1. */
  share: number;
  /** Part of the width that is dark or light, at least `share`. More than 1 is drawn as 1. */
  whole: number;
  color: string;
  /** The bar in words. */
  text: string;
}

/** Draw a share of the whole width dark, and a larger one light. */
export function Bar({ share, whole, color, text }: BarProps) {
  return (
    <Box
      role="img"
      aria-label={text}
      title={text}
      height="6px"
      bg="bg.emphasized"
      borderRadius="full"
      overflow="hidden"
    >
      <Box position="relative" height="100%">
        <Box position="absolute" height="100%" bg={color} opacity={0.4} width={formatWidth(whole)} />
        <Box position="absolute" height="100%" bg={color} width={formatWidth(share)} />
      </Box>
    </Box>
  );
}

const formatWidth = (share: number): string => `${Math.min(1, share) * 100}%`;
