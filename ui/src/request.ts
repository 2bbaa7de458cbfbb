// Requests to the server that the page came from, with the visitor's session.

export class RequestError extends Error {
  /** `status` is 0 if no answer arrived. */
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Return the address of a path. Airflow's base URL may have a path, too. */
export const resolveAddress = (path: string): string => new URL(path, document.baseURI).href;

/** Return the address of Airflow's login, which leads back to where the visitor is. */
export const buildLoginAddress = (): string =>
  resolveAddress(`api/v2/auth/login?next=${encodeURIComponent(window.location.href)}`);

/** Send a request, and return the response, whatever its status. A body is sent as JSON.
 * @throws RequestError with status 0 if there is no response. */
export async function send(path: string, options: RequestInit & { json?: unknown } = {}): Promise<Response> {
  const { json, headers, ...rest } = options;
  const hasBody = json !== undefined;
  try {
    return await fetch(resolveAddress(path), {
      credentials: "same-origin",
      // Another site could only send a form. Before it sends JSON, the browser asks this server, which refuses it (CORS).
      headers: { Accept: "application/json", ...(hasBody && { "Content-Type": "application/json" }), ...headers },
      ...(hasBody && { body: JSON.stringify(json) }),
      ...rest,
    });
  } catch {
    throw new RequestError(0, "The server did not answer.");
  }
}

/** Send a request, and return the JSON of the response.
 * @throws RequestError if the response is an error, or if there is none. */
export async function requestJson<T>(path: string, options: RequestInit & { json?: unknown } = {}): Promise<T> {
  const response = await send(path, options);
  if (!response.ok) throw await readError(response);
  return (await response.json()) as T;
}

/** Read the error in a response. FastAPI writes it to `detail`: a text, an object, or a list of wrong fields. */
export async function readError(response: Response): Promise<RequestError> {
  const body: unknown = await response.json().catch(() => null);
  const detail = typeof body === "object" && body !== null && "detail" in body ? body.detail : null;
  return new RequestError(response.status, describeDetail(detail) || `The server answered ${response.status}.`);
}

function describeDetail(detail: unknown): string {
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail)) return detail.map(describeDetail).filter(Boolean).join("; ");
  if (typeof detail !== "object" || detail === null) return "";
  const fields = detail as Record<string, unknown>;
  const place = Array.isArray(fields.loc) ? fields.loc.slice(1).join(".") : "";
  const text = String(fields.msg ?? fields.reason ?? fields.message ?? "");
  return place ? `${place}: ${text}` : text;
}
