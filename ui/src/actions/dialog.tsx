// The dialog in which a visitor reads what an action does, and confirms it.
import { Button, Dialog, Link, Portal, Stack, Text } from "@chakra-ui/react";
import { type ReactNode, useState } from "react";
import { AirflowLink } from "../links";
import { buildLoginAddress } from "../request";
import { Notice } from "../widgets/notice";
import { type Action, describeError } from "./use_action";

interface ActionDialogProps {
  /** Text of the button that opens the dialog. */
  button: string;
  title: string;
  /** What will happen, in detail. */
  consequences: ReactNode;
  /** Text of the button that sends. */
  confirm: string;
  palette?: string;
  /** Whether all required fields are filled in. */
  isReady: boolean;
  /** Why the action is not possible; empty if it is. */
  obstacle?: string;
  action: Action;
  onOpen?: () => void;
  onClose?: () => void;
  children?: ReactNode;
}

/** Show a button that opens the dialog of an action. */
export function ActionDialog(props: ActionDialogProps) {
  const {
    button,
    title,
    consequences,
    confirm,
    palette = "blue",
    isReady,
    obstacle,
    action,
    onOpen,
    onClose,
    children,
  } = props;
  const [isOpen, setOpen] = useState(false);
  const change = (open: boolean) => {
    if (action.isSending) return;
    if (open) {
      action.reset();
      onOpen?.();
    } else {
      onClose?.();
    }
    setOpen(open);
  };
  return (
    <Dialog.Root open={isOpen} onOpenChange={({ open }) => change(open)} size="lg" scrollBehavior="inside">
      <Dialog.Trigger asChild>
        <Button size="xs" variant="outline">
          {button}
        </Button>
      </Dialog.Trigger>
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content>
            <Dialog.Header>
              <Dialog.Title fontSize="md">{title}</Dialog.Title>
            </Dialog.Header>
            <Dialog.Body>
              <Stack gap={4} fontSize="sm">
                <Dialog.Description as="div">{consequences}</Dialog.Description>
                {obstacle && (
                  <Notice status="warning" title="This is not possible now.">
                    {obstacle}
                  </Notice>
                )}
                {!action.result && !obstacle && children}
                <Outcome action={action} />
              </Stack>
            </Dialog.Body>
            <Dialog.Footer>
              <Button size="sm" variant="outline" onClick={() => change(false)} disabled={action.isSending}>
                {action.result ? "Close" : "Cancel"}
              </Button>
              {!action.result && (
                <Button
                  size="sm"
                  colorPalette={palette}
                  onClick={action.send}
                  disabled={!isReady || Boolean(obstacle) || action.isSending}
                  loading={action.isSending}
                  loadingText="Sending"
                >
                  {confirm}
                </Button>
              )}
            </Dialog.Footer>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}

/** Show how the action ended. */
function Outcome({ action }: { action: Action }) {
  if (action.result) {
    const { text, path, wasDone } = action.result;
    return (
      <Notice status={wasDone ? "warning" : "success"} title={text}>
        {path && <AirflowLink to={path}>Open it in Airflow</AirflowLink>}
      </Notice>
    );
  }
  if (!action.error) return null;
  const { title, text } = describeError(action.error);
  return (
    <Notice status="error" title={title}>
      <Text>{text}</Text>
      {action.error.status === 401 && (
        <Link href={buildLoginAddress()} target="_blank" rel="noopener" textDecoration="underline">
          Log in
        </Link>
      )}
    </Notice>
  );
}
