// Load a module of src/ for a test.
import { build } from "esbuild";

/** Return the exports of a module that needs no browser, such as `actions/evidence.ts`. */
export async function load(name) {
  const entry = new URL(`../src/${name}`, import.meta.url).pathname;
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
