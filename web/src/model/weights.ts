// A safetensors file in float32, bf16 or int8 with a scale per row (model_folder/weights.py), read as float32.
//
// The format: the length of the header (8 bytes, little-endian), the header as JSON, then the numbers.
import { ModelError } from "./config";
import { sizeOf, type Tensor } from "./tensor";

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

const SCALE = ".int8_scale";

/** The weights by name. Each is taken once; what is left over at the end is not of this model. */
export class Weights {
  private readonly unread: Map<string, Tensor>;

  constructor(readonly byName: ReadonlyMap<string, Tensor>) {
    this.unread = new Map(byName);
  }

  take(name: string, ...shape: number[]): Tensor {
    const found = this.unread.get(name);
    if (!found) throw new ModelError(`the model's weights have no ${name}`);
    if (found.shape.join() !== shape.join())
      throw new ModelError(`the model's weights have ${name} of the shape ${found.shape.join(" × ")}, where its settings need ${shape.join(" × ")}`);
    this.unread.delete(name);
    return found;
  }

  checkAllTaken(): void {
    const [name] = this.unread.keys();
    if (name !== undefined) throw new ModelError(`the model's weights have ${name}, which its settings do not need`);
  }
}

export function readWeights(file: Uint8Array): Weights {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const size = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + size))) as Record<string, Entry>;
  delete header.__metadata__;
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (isScale(name, header)) continue;
    const scale = header[name + SCALE];
    const values = scale ? fromInt8(bytesOf(entry), floats(scale, bytesOf(scale)), entry.shape) : floats(entry, bytesOf(entry));
    if (values.length !== sizeOf(entry.shape)) throw new ModelError(`the model's weights are damaged: ${name} is incomplete`);
    if (!isFinite(values)) throw new ModelError(`the model's weights have a number in ${name} that is NaN or infinite`);
    tensors.set(name, { shape: entry.shape, values });
  }
  return new Weights(tensors);

  function bytesOf(entry: Entry): Uint8Array {
    const [start, end] = entry.data_offsets;
    return file.slice(8 + size + start, 8 + size + end); // a copy, so that it is aligned
  }
}

function isScale(name: string, header: Record<string, Entry>): boolean {
  return name.endsWith(SCALE) && header[name.slice(0, -SCALE.length)]?.dtype === "I8";
}

function floats(entry: Entry, bytes: Uint8Array): Float32Array {
  switch (entry.dtype) {
    case "F32":
      return new Float32Array(bytes.buffer);
    case "F64":
      return Float32Array.from(new Float64Array(bytes.buffer));
    case "BF16":
      return fromBfloat16(new Uint16Array(bytes.buffer));
    default:
      throw new ModelError(`the page's own model does not read numbers of the type ${entry.dtype}`);
  }
}

/** bf16 is the upper half of a float32. */
function fromBfloat16(halves: Uint16Array): Float32Array {
  const bits = new Uint32Array(halves.length);
  for (let i = 0; i < bits.length; i++) bits[i] = halves[i] << 16;
  return new Float32Array(bits.buffer);
}

/** Each integer times the scale of its row. */
function fromInt8(bytes: Uint8Array, scales: Float32Array, shape: number[]): Float32Array {
  const integers = new Int8Array(bytes.buffer);
  const size = shape[shape.length - 1];
  const values = new Float32Array(integers.length);
  for (let i = 0; i < values.length; i++) values[i] = integers[i] * scales[Math.floor(i / size)];
  return values;
}

function isFinite(values: Float32Array): boolean {
  for (const value of values) if (!Number.isFinite(value)) return false;
  return true;
}
