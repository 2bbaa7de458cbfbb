export function CostsPage(_: { dataset?: string }) { return null; }
