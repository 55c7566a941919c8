// The layout of the search tree: one column per step, one row per leaf.
import type { BeamNode } from "../api/types";

export interface Placed {
  node: BeamNode;
  x: number;
  y: number;
  parent: Placed | null;
}

export interface Tree {
  placed: Placed[];
  byNode: Map<number, Placed>;
  width: number;
  height: number;
}

export const COLUMN = 88;
export const ROW = 25;

export function layoutTree(nodes: BeamNode[], pruned: boolean): Tree {
  const children = new Map<number | null, BeamNode[]>();
  for (const node of nodes) {
    if (!pruned && node.state === "pruned") continue;
    const siblings = children.get(node.parent);
    if (siblings) siblings.push(node);
    else children.set(node.parent, [node]);
  }
  for (const siblings of children.values()) siblings.sort((a, b) => Number(b.state === "best") - Number(a.state === "best") || b.total - a.total);
  const placed: Placed[] = [];
  const byNode = new Map<number, Placed>();
  let rows = 0;
  let steps = 0;
  // The first child stays in its parent's row, so that the best path is a straight line.
  const stack: { node: BeamNode; parent: Placed | null; first: boolean }[] = [];
  const push = (parent: Placed | null): void => {
    const found = children.get(parent ? parent.node.node : null) ?? [];
    for (let i = found.length - 1; i >= 0; i--) stack.push({ node: found[i], parent, first: i === 0 });
  };
  push(null);
  while (stack.length) {
    const { node, parent, first } = stack.pop()!;
    if (!(first && parent) && placed.length) rows += 1;
    const y = first && parent ? parent.y : rows * ROW + 2;
    const at = { node, x: node.step * COLUMN + 2, y, parent };
    placed.push(at);
    byNode.set(node.node, at);
    steps = Math.max(steps, node.step);
    push(at);
  }
  return { placed, byNode, width: (steps + 1) * COLUMN + 8, height: (rows + 1) * ROW + 8 };
}

/** The nodes from the first token to this one. */
export function pathTo(nodes: BeamNode[], node: number): BeamNode[] {
  const byId = new Map(nodes.map((one) => [one.node, one]));
  const path: BeamNode[] = [];
  for (let at: number | null = node; at !== null; ) {
    const one = byId.get(at);
    if (!one) break;
    path.unshift(one);
    at = one.parent;
  }
  return path;
}
