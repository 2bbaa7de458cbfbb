// Frames around the parts of a view.
import { Box, Flex, Heading, Text } from "@chakra-ui/react";
import { type ReactNode, useId } from "react";
import { CodeText } from "./code_text";

interface PanelProps {
  title: string;
  /** Text below the title. */
  note?: ReactNode;
  /** Shown at the right of the title. */
  actions?: ReactNode;
  children: ReactNode;
}

/** Show a part of a view, with a title. */
export function Panel({ title, note, actions, children }: PanelProps) {
  const id = useId();
  return (
    <Box as="section" aria-labelledby={id} borderWidth="1px" borderRadius="md" p={{ base: 3, md: 4 }} minW={0}>
      <Flex justify="space-between" align="baseline" gap={3} wrap="wrap" mb={3}>
        <Box>
          <Heading as="h2" id={id} size="sm">
            {title}
          </Heading>
          {note && (
            <Text color="fg.muted" fontSize="xs" mt={0.5}>
              {typeof note === "string" ? <CodeText text={note} /> : note}
            </Text>
          )}
        </Box>
        <Box fontSize="sm">{actions}</Box>
      </Flex>
      {children}
    </Box>
  );
}

/** Say that there is nothing to show, and why. */
export function EmptyNote({ children }: { children: ReactNode }) {
  return (
    <Text color="fg.muted" fontSize="sm" py={2}>
      {typeof children === "string" ? <CodeText text={children} /> : children}
    </Text>
  );
}

/** Show small gray text. */
export function SmallText({ children }: { children: ReactNode }) {
  return (
    <Text fontSize="xs" color="fg.muted" overflowWrap="anywhere">
      {children}
    </Text>
  );
}

/** Show a value below its name. */
export function Fact({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Box minW={0}>
      <Text fontSize="xs" color="fg.muted" fontWeight="medium">
        {title}
      </Text>
      {children}
    </Box>
  );
}
