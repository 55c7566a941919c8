// The panels, in the order of the navigation and of the shortcut keys.
export const PANELS = [
  "translate",
  "tokens",
  "overview",
  "where",
  "input",
  "heads",
  "head",
  "residual",
  "output",
  "beam",
  "interventions",
  "compare",
  "training",
  "texts",
] as const;
export type Panel = (typeof PANELS)[number];

export const PANEL_KEYS = "123w4567890-=t";

/** Panel names in links made by earlier versions. */
const FORMER_NAMES = new Map<string, Panel>([
  ["walk", "overview"],
  ["atlas", "heads"],
  ["block", "residual"],
  ["whatif", "interventions"],
]);

export function findPanel(name: string): Panel | undefined {
  return PANELS.find((panel) => panel === name) ?? FORMER_NAMES.get(name);
}
