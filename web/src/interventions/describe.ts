// Names and descriptions of interventions, with layers and heads counted from 1.
import type { Intervention } from "../api/types";
import { parseAttentionPath } from "../state/attention";
import { t } from "../state/preferences.svelte";

/** The component of the model that an intervention changes. */
export function componentName(one: Intervention): string {
  if (!("where" in one)) return t(`intervention.${one.kind}`);
  const { kind, layer } = parseAttentionPath(one.where);
  const inAttention = { kind: t(`kind.${kind}`), layer: layer + 1 };
  const inLayer = { side: t(kind === "encoder" ? "encoder" : "decoder"), layer: layer + 1 };
  switch (one.kind) {
    case "head":
    case "weight":
      return t("head-name", { ...inAttention, head: one.head + 1 });
    case "attention":
      return t("attention-name", inAttention);
    case "layer":
      return t("layer-name", inLayer);
    case "ffn":
      return t("ffn-name", inLayer);
    case "residual":
      return t("residual-name", inLayer);
  }
}

/** What an intervention does. */
export function describe(one: Intervention): string {
  if (!("where" in one)) return t(`intervention.${one.kind}.help`);
  if (one.kind !== "weight") return t("intervention.disabled", { what: componentName(one) });
  return t("intervention.weight", { what: componentName(one), row: one.row + 1, column: one.column + 1, value: one.value });
}
