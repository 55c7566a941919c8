// The tree of a beam search: every hypothesis it considered, and whether it was pruned or finished (inspect/beam_tree.py).
import type { BeamNode } from "../../api/types";
import type { BeamStep } from "../decode/beam";
import { lengthPenaltyDivisor, type Hypothesis } from "../decode/hypotheses";
import { EOS } from "../tokenizer/sentencePiece";

type Node = Omit<BeamNode, "piece">;
const MAX_NODES = 20_000; // beyond it, pruned nodes are only counted

/** Pass `observe` to a beam search, then its hypotheses to `finish`. */
export class BeamTree {
  readonly nodes: Node[] = [];
  leftOut = 0;
  private rowNodes: (number | null)[] = [null];

  constructor(private readonly lengthPenalty: number) {}

  observe({ active, next, taken, kept }: BeamStep): void {
    const step = active[0].ids.length;
    const divisor = lengthPenaltyDivisor(step + 1, this.lengthPenalty);
    const nodes = taken.map(({ hypothesis: { ids, logProbs, total }, parent, ended, cut }) => {
      const state = ended ? "finished" : cut ? "cut" : "alive";
      return this.add({ parent: this.rowNodes[parent], step, id: ids[step], log_prob: logProbs[step], total, score: total / divisor, state });
    });
    this.addPruned(active, next, taken, step, divisor);
    nodes.forEach((node, rank) => {
      if (!kept.includes(rank) && this.nodes[node].state === "alive") this.nodes[node].state = "pruned"; // it cannot win any more
    });
    this.rowNodes = kept.map((rank) => nodes[rank]);
  }

  private addPruned(active: BeamStep["active"], next: BeamStep["next"], taken: BeamStep["taken"], step: number, divisor: number): void {
    const known = new Set(taken.map(({ parent, hypothesis }) => `${parent} ${hypothesis.ids[step]}`));
    active.forEach((row, index) => {
      next[index].ids.forEach((id, column) => {
        const log_prob = next[index].logProbs[column];
        if (log_prob === -Infinity || known.has(`${index} ${id}`)) return;
        if (this.nodes.length >= MAX_NODES) {
          this.leftOut++;
          return;
        }
        const total = Math.fround(row.total + log_prob);
        this.add({ parent: this.rowNodes[index], step, id, log_prob, total, score: total / divisor, state: "pruned" });
      });
    });
  }

  private add(node: Omit<Node, "node">): number {
    return this.nodes.push({ node: this.nodes.length, ...node }) - 1;
  }

  /** Mark the path of the best; return the last node of each hypothesis (null: it is empty). */
  finish(found: Hypothesis[]): (number | null)[] {
    const children = new Map(this.nodes.map(({ parent, id, node }) => [`${parent} ${id}`, node]));
    return found.map(({ ids, finished }, rank) => {
      let node: number | null = null;
      for (const id of finished ? [...ids, EOS] : ids) {
        node = children.get(`${node} ${id}`) ?? null;
        if (rank === 0 && node !== null) this.nodes[node].state = "best";
      }
      return node;
    });
  }
}
