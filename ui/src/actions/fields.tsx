// Fields of the dialogs.
import { Field, Input, NativeSelect, Textarea } from "@chakra-ui/react";

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

interface ChoiceFieldProps<T extends string> {
  label: string;
  value: T;
  /** Each value, and its text. */
  options: Record<T, string>;
  onChange: (value: T) => void;
}

/** Ask for one of a few values. */
export function ChoiceField<T extends string>({ label, value, options, onChange }: ChoiceFieldProps<T>) {
  return (
    <Field.Root>
      <Field.Label>{label}</Field.Label>
      <NativeSelect.Root size="sm">
        <NativeSelect.Field value={value} onChange={(event) => onChange(event.target.value as T)}>
          {Object.entries<string>(options).map(([name, text]) => (
            <option key={name} value={name}>
              {text}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
    </Field.Root>
  );
}
