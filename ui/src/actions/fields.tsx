// Fields of the dialogs.
import { Field, Input, Textarea } from "@chakra-ui/react";

interface FieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  help?: string;
  isRequired?: boolean;
}

/** Ask for a reason in words. */
export function ReasonField({ label, value, onChange, help, isRequired = true }: FieldProps) {
  return (
    <Field.Root required={isRequired}>
      <Field.Label>
        {label} <Field.RequiredIndicator fallback="" />
      </Field.Label>
      <Textarea size="sm" rows={3} maxLength={1000} value={value} onChange={(event) => onChange(event.target.value)} />
      {help && <Field.HelperText>{help}</Field.HelperText>}
    </Field.Root>
  );
}

/** Ask for a day. */
export function DayField({ label, value, onChange, help }: FieldProps) {
  return (
    <Field.Root required>
      <Field.Label>
        {label} <Field.RequiredIndicator />
      </Field.Label>
      <Input size="sm" type="date" value={value} onChange={(event) => onChange(event.target.value)} maxW="12rem" />
      {help && <Field.HelperText>{help}</Field.HelperText>}
    </Field.Root>
  );
}
