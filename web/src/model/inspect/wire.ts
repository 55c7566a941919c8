// The binary form of arrays, as the server sends them (inspect/wire.py): the length of the header, the header as JSON, then
// the arrays, each padded to 8 bytes.
import type { ArrayEntry } from "../../api/types";
import type { Tensor } from "../tensor";

export interface Bytes {
  shape: number[];
  values: Uint8Array;
}

const padTo8 = (size: number): number => Math.ceil(size / 8) * 8;

export function pack(header: object, arrays: ReadonlyMap<string, Tensor | Bytes>): ArrayBuffer {
  const entries: ArrayEntry[] = [];
  let offset = 0;
  for (const [name, { shape, values }] of arrays) {
    const dtype = values instanceof Uint8Array ? "uint8" : "float32";
    entries.push({ name, dtype, shape, offset, bytes: values.byteLength });
    offset += padTo8(values.byteLength);
  }
  const text = new TextEncoder().encode(JSON.stringify({ ...header, arrays: entries }));
  const start = padTo8(4 + text.length);
  const body = new Uint8Array(start + offset);
  new DataView(body.buffer).setUint32(0, text.length, true);
  body.set(text, 4);
  [...arrays.values()].forEach(({ values }, index) => {
    body.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), start + entries[index].offset);
  });
  return body.buffer;
}
