// Contents that the visitor can show and hide.
import { Box } from "@chakra-ui/react";
import { type ReactNode, useState } from "react";

/** Show a line that opens and closes its contents. The contents are rendered only while they are open. */
export function Disclosure({ title, children }: { title: string; children: () => ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Box asChild fontSize="xs" mt={2}>
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <Box asChild cursor="pointer" color="fg.muted" width="fit-content">
          <summary>{title}</summary>
        </Box>
        {isOpen && <Box mt={2}>{children()}</Box>}
      </details>
    </Box>
  );
}
