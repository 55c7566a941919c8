// Byte-pair encoding (Sennrich et al. 2016): characters are merged, the adjacent pair that was learnt earliest first.

/** `rankOf`: that of a piece that merges can produce; the lowest is merged first, the leftmost of equals. */
export function mergePairs(start: readonly string[], rankOf: (piece: string) => number | undefined): string[] {
  const symbols = [...start];
  // A linked list of what is left of the symbols; −1: the end.
  const after = symbols.map((_, i) => (i + 1 < symbols.length ? i + 1 : -1));
  const before = symbols.map((_, i) => i - 1);
  const agenda = new Agenda();

  const propose = (left: number, right: number): void => {
    if (left < 0 || right < 0) return;
    const merged = symbols[left] + symbols[right];
    const rank = rankOf(merged);
    if (rank !== undefined) agenda.push({ rank, left, right, merged });
  };
  for (let left = 0; left + 1 < symbols.length; left++) propose(left, left + 1);
  for (let pair = agenda.pop(); pair; pair = agenda.pop()) {
    const { left, right, merged } = pair;
    if (after[left] !== right || symbols[left] + symbols[right] !== merged) continue;
    symbols[left] = merged;
    symbols[right] = "";
    after[left] = after[right];
    if (after[right] >= 0) before[after[right]] = left;
    propose(before[left], left);
    propose(left, after[left]);
  }
  return symbols.filter(Boolean);
}

interface Pair {
  rank: number;
  left: number;
  right: number;
  merged: string;
}

const isFirst = (a: Pair, b: Pair): boolean => a.rank < b.rank || (a.rank === b.rank && a.left < b.left);

/** A binary heap of pairs. */
class Agenda {
  private readonly heap: Pair[] = [];

  push(pair: Pair): void {
    let at = this.heap.push(pair) - 1;
    for (let up = (at - 1) >> 1; at > 0 && isFirst(pair, this.heap[up]); up = (at - 1) >> 1) {
      this.heap[at] = this.heap[up];
      at = up;
    }
    this.heap[at] = pair;
  }

  pop(): Pair | undefined {
    const [first] = this.heap;
    const last = this.heap.pop();
    if (!last || !this.heap.length) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.heap.length) break;
      if (child + 1 < this.heap.length && isFirst(this.heap[child + 1], this.heap[child])) child++;
      if (!isFirst(this.heap[child], last)) break;
      this.heap[at] = this.heap[child];
      at = child;
    }
    this.heap[at] = last;
    return first;
  }
}
