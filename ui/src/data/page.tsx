export function DataPage(_: { dataset?: string }) { return null; }
