// Few strong colours with fixed meanings: queries blue, keys red, values green, attention violet, the rest ink.
import type { Light } from "../state/preferences.svelte";

export const HUES = ["query", "key", "value", "attention", "ink"] as const;
export type Hue = (typeof HUES)[number];
type Rgb = readonly [number, number, number];

const strong: Record<Light, Record<Hue | "card" | "negative", Rgb>> = {
  light: {
    query: [37, 99, 211],
    key: [205, 50, 50],
    value: [21, 132, 82],
    attention: [109, 54, 204],
    ink: [64, 62, 74],
    card: [255, 255, 255],
    negative: [172, 152, 118],
  },
  dark: {
    query: [110, 168, 255],
    key: [255, 122, 117],
    value: [84, 204, 143],
    attention: [183, 148, 255],
    ink: [200, 198, 212],
    card: [30, 30, 38],
    negative: [150, 128, 92],
  },
};

export function paint(light: Light, hue: Hue): Rgb {
  return strong[light][hue];
}

/** From the card's colour towards the hue (or, below zero, towards sand), in proportion to the size. */
export function shade(light: Light, hue: Hue, share: number): Rgb {
  const { card, negative } = strong[light];
  const towards = share < 0 ? negative : strong[light][hue];
  const size = Math.min(1, Math.abs(share));
  return [0, 1, 2].map((i) => card[i] + (towards[i] - card[i]) * size) as unknown as Rgb;
}

export function css([r, g, b]: Rgb, opacity = 1): string {
  return `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)} / ${opacity})`;
}

/** The same colours for the style sheet: --query, --key and so on. */
export function dress(root: HTMLElement, light: Light): void {
  root.dataset.light = light;
  for (const hue of HUES) root.style.setProperty(`--${hue}`, css(strong[light][hue]));
  root.style.setProperty("--card", css(strong[light].card));
  root.style.setProperty("--negative", css(strong[light].negative));
}
