// The camera: a rectangle of the figure is fitted into the canvas; it moves there smoothly.
import type { Rect } from "./geometry";

export interface View {
  /** The centre, in the figure. */
  x: number;
  y: number;
  scale: number;
}

export function fit(rect: Rect, width: number, height: number, margin = 14, most = 4): View {
  const scale = Math.min((width - 2 * margin) / rect.width, (height - 2 * margin) / rect.height, most);
  return { x: rect.x + rect.width / 2, y: rect.y + rect.height / 2, scale };
}

/** Moves towards the goal; about two thirds of the way in a third of a second. */
export function approach(now: View, goal: View, ms: number): View {
  const share = 1 - Math.exp(-ms / 280);
  const scale = now.scale * (goal.scale / now.scale) ** share;
  const next = { x: now.x + (goal.x - now.x) * share, y: now.y + (goal.y - now.y) * share, scale };
  const arrived = Math.abs(next.x - goal.x) < 0.2 && Math.abs(next.y - goal.y) < 0.2 && Math.abs(scale / goal.scale - 1) < 0.002;
  return arrived ? goal : next;
}

export function toScreen(view: View, rect: Rect, width: number, height: number): Rect {
  return {
    x: (rect.x - view.x) * view.scale + width / 2,
    y: (rect.y - view.y) * view.scale + height / 2,
    width: rect.width * view.scale,
    height: rect.height * view.scale,
  };
}
