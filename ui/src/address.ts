// Addresses that come from documents.

const SCHEMES = ["http:", "https:", "file:"];

/** Return the address if a link may open it; null for any other scheme, such as `javascript:`. */
export function checkAddress(address: string): string | null {
  try {
    return SCHEMES.includes(new URL(address).protocol) ? address : null;
  } catch {
    return null;
  }
}
