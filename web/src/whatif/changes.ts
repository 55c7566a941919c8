// Adding, removing and finding changes in a list of them.
import type { Intervention } from "../api/types";

export function same(a: Intervention, b: Intervention): boolean {
  const key = (one: Intervention): string =>
    [one.kind, "where" in one ? one.where : "", "head" in one ? one.head : "", "row" in one ? `${one.row},${one.column}` : ""].join();
  return key(a) === key(b);
}

export function has(changes: Intervention[], one: Intervention): boolean {
  return changes.some((other) => same(other, one));
}

export function toggled(changes: Intervention[], one: Intervention): Intervention[] {
  return has(changes, one) ? without(changes, one) : [...changes, one];
}

export function without(changes: Intervention[], one: Intervention): Intervention[] {
  return changes.filter((other) => !same(other, one));
}
