// The server's binary format: a little-endian header length, a JSON header, then the arrays, aligned to 8 bytes.
import type { ArrayEntry } from "./types";

export type Values = Float32Array | Uint8Array;

export interface NumberArray {
  shape: number[];
  values: Values;
}

export interface ArrayBundle<Header> {
  header: Header;
  arrays: Map<string, NumberArray>;
}

const padTo8 = (size: number): number => Math.ceil(size / 8) * 8;

export function unpack<Header>(body: ArrayBuffer): ArrayBundle<Header> {
  const size = new DataView(body).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(body, 4, size));
  const header = JSON.parse(text) as Header & { arrays: ArrayEntry[] };
  const start = padTo8(4 + size);
  const arrays = new Map<string, NumberArray>();
  for (const entry of header.arrays) {
    const from = start + entry.offset;
    arrays.set(entry.name, { shape: entry.shape, values: view(body, entry.dtype, from, entry.bytes) });
  }
  return { header, arrays };
}

function view(body: ArrayBuffer, dtype: string, from: number, bytes: number): Values {
  switch (dtype) {
    case "uint8":
      return new Uint8Array(body, from, bytes);
    case "float32":
      return new Float32Array(body, from, bytes / 4);
    default:
      throw new Error(`unsupported array dtype: ${dtype}`);
  }
}

/** One entry along the first axis: one head of an array whose first axis is heads. */
export function sliceFirstAxis(array: NumberArray, index: number): NumberArray {
  const shape = array.shape.slice(1);
  const size = shape.reduce((a, b) => a * b, 1);
  return { shape, values: array.values.subarray(index * size, (index + 1) * size) };
}
