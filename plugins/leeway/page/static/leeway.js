globalThis.AirflowPlugin = () => null;
