// The entry point. Airflow renders the component in the global variable that has the plugin's name.
import { App } from "./app";

Object.assign(globalThis, { Leeway: App, AirflowPlugin: App });
