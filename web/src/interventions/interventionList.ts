// Adding, removing and finding interventions in a list.
import type { Intervention } from "../api/types";

export function same(a: Intervention, b: Intervention): boolean {
  const key = (one: Intervention): string =>
    [one.kind, "where" in one ? one.where : "", "head" in one ? one.head : "", "row" in one ? `${one.row},${one.column}` : ""].join();
  return key(a) === key(b);
}

export function has(list: Intervention[], one: Intervention): boolean {
  return list.some((other) => same(other, one));
}

export function toggled(list: Intervention[], one: Intervention): Intervention[] {
  return has(list, one) ? without(list, one) : [...list, one];
}

export function without(list: Intervention[], one: Intervention): Intervention[] {
  return list.filter((other) => !same(other, one));
}
