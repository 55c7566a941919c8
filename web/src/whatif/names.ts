// What a change is called, as a person counts: layers and heads from 1.
import type { Intervention } from "../api/types";
import { placeOf } from "../state/places";
import { t } from "../state/preferences.svelte";

/** The part of the model that it is about. */
export function nameOf(one: Intervention): string {
  if (!("where" in one)) return t(`change.${one.kind}`);
  const { kind, layer } = placeOf(one.where);
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

/** What it does. */
export function describe(one: Intervention): string {
  if (!("where" in one)) return t(`change.${one.kind}.help`);
  if (one.kind !== "weight") return t("change.off", { what: nameOf(one) });
  return t("change.weight", { what: nameOf(one), row: one.row + 1, column: one.column + 1, value: one.value });
}
