// A few strong colours with fixed meanings: queries blue, keys red, values green, attention violet, the rest ink.
import type { Theme } from "../state/preferences.svelte";

export const HUES = ["query", "key", "value", "attention", "ink"] as const;
export type Hue = (typeof HUES)[number];
type Rgb = readonly [number, number, number];

const COLOURS: Record<Theme, Record<Hue | "card" | "negative", Rgb>> = {
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

export function paint(theme: Theme, hue: Hue): Rgb {
  return COLOURS[theme][hue];
}

/** Interpolates from the card's colour to the hue or, for negative shares, to sand. */
export function shade(theme: Theme, hue: Hue, share: number): Rgb {
  const { card, negative } = COLOURS[theme];
  const towards = share < 0 ? negative : COLOURS[theme][hue];
  const size = Math.min(1, Math.abs(share));
  return [0, 1, 2].map((i) => card[i] + (towards[i] - card[i]) * size) as unknown as Rgb;
}

export function css([r, g, b]: Rgb, opacity = 1): string {
  return `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)} / ${opacity})`;
}

/** Sets the colours as CSS variables: --query, --key and so on. */
export function applyTheme(root: HTMLElement, theme: Theme): void {
  root.dataset.theme = theme;
  for (const hue of HUES) root.style.setProperty(`--${hue}`, css(COLOURS[theme][hue]));
  root.style.setProperty("--card", css(COLOURS[theme].card));
  root.style.setProperty("--negative", css(COLOURS[theme].negative));
}
