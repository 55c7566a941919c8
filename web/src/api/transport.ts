// Where responses come from: the server, the page's own model (pageTransport.ts), or the data inside a file written by
// `regard explain`.

export interface GivenSentence {
  model: string;
  text: string;
  /** A translation to show; null: the best one. */
  tgt: number[] | null;
}

export interface Transport {
  /** A static file: it contains one sentence and cannot compute. */
  readonly isStatic: boolean;
  /** Training runs can be shown and started. */
  readonly hasServer: boolean;
  readonly sentence: GivenSentence | null;
  /** Names of tensors that a file omits. */
  readonly omitted: string[];
  /** The page computes this model itself. */
  computes(model: string): boolean;
  request(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<ArrayBuffer>;
  /** A response that arrives line by line. */
  stream(path: string, body: unknown, onLine: (line: string) => void, signal?: AbortSignal): Promise<void>;
}

/** `message` is the server's, or the last part of an `error.` message key. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly hint = "",
    readonly status = 0,
  ) {
    super(message);
  }
}

export class ServerTransport implements Transport {
  readonly isStatic = false;
  readonly hasServer = true;
  readonly sentence = null;
  readonly omitted = [];

  computes(): boolean {
    return false;
  }

  async request(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<ArrayBuffer> {
    return (await this.send(method, path, body, signal)).arrayBuffer();
  }

  async stream(path: string, body: unknown, onLine: (line: string) => void, signal?: AbortSignal): Promise<void> {
    const response = await this.send("POST", path, body, signal);
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    let incomplete = "";
    for (;;) {
      const chunk = await reader?.read().catch((failure: unknown) => {
        if (signal?.aborted) throw failure;
        throw new ApiError("offline");
      });
      if (!chunk || chunk.done) return;
      const lines = (incomplete + decoder.decode(chunk.value, { stream: true })).split("\n");
      incomplete = lines.pop() ?? "";
      lines.forEach(onLine);
    }
  }

  private async send(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const request: RequestInit = { method, signal };
    if (method === "POST") {
      request.headers = { "content-type": "application/json" };
      request.body = JSON.stringify(body);
    }
    let response: Response;
    try {
      response = await fetch(path, request);
    } catch (failure) {
      if (signal?.aborted) throw failure;
      throw new ApiError("offline");
    }
    if (!response.ok) throw await readError(response);
    return response;
  }
}

async function readError(response: Response): Promise<ApiError> {
  try {
    const body = (await response.json()) as { error?: string; hint?: string };
    return new ApiError(body.error ?? response.statusText, body.hint ?? "", response.status);
  } catch {
    return new ApiError(`${response.status} ${response.statusText}`, "", response.status);
  }
}

export interface FileData {
  model: string;
  text: string;
  responses: Record<string, string>;
  left_out: string[];
}

export class FileTransport implements Transport {
  readonly isStatic = true;
  readonly hasServer = false;
  readonly sentence: GivenSentence;
  readonly omitted: string[];

  constructor(private readonly data: FileData) {
    this.sentence = { model: data.model, text: data.text, tgt: null };
    this.omitted = data.left_out;
  }

  computes(): boolean {
    return false;
  }

  async request(method: "GET" | "POST", path: string, body: unknown): Promise<ArrayBuffer> {
    const side = path === "/api/tokens" ? ` ${(body as { side: string }).side}` : "";
    const response = this.data.responses[`${method} ${path}${side}`];
    if (response === undefined) throw new ApiError("not-in-file", "", 404);
    return decode(response);
  }

  stream(): Promise<void> {
    throw new ApiError("not-in-file", "", 404);
  }
}

/** From base64, decompressed if it is compressed. */
export function decode(base64: string): Promise<ArrayBuffer> {
  const characters = atob(base64);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return expand(bytes.buffer);
}

/** Decompressed if it is compressed. */
export async function expand(body: ArrayBuffer): Promise<ArrayBuffer> {
  const bytes = new Uint8Array(body);
  return bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzip(bytes) : body;
}

function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
