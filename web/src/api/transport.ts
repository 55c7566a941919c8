// Where responses come from: the server, or the data inside a file written by `regard explain`.

export interface Transport {
  /** A static file: it contains one sentence and cannot compute. */
  readonly isStatic: boolean;
  readonly sentence: { model: string; text: string } | null;
  /** Names of tensors that a file omits. */
  readonly omitted: string[];
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

class ServerTransport implements Transport {
  readonly isStatic = false;
  readonly sentence = null;
  readonly omitted = [];

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

interface FileData {
  model: string;
  text: string;
  responses: Record<string, string>;
  left_out: string[];
}

class FileTransport implements Transport {
  readonly isStatic = true;
  readonly sentence: { model: string; text: string };
  readonly omitted: string[];

  constructor(private readonly data: FileData) {
    this.sentence = { model: data.model, text: data.text };
    this.omitted = data.left_out;
  }

  async request(method: "GET" | "POST", path: string, body: unknown): Promise<ArrayBuffer> {
    const side = path === "/api/tokens" ? ` ${(body as { side: string }).side}` : "";
    const response = this.data.responses[`${method} ${path}${side}`];
    if (response === undefined) throw new ApiError("not-in-file", "", 404);
    const bytes = Uint8Array.from(atob(response), (character) => character.charCodeAt(0));
    return bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzip(bytes) : bytes.buffer;
  }

  stream(): Promise<void> {
    throw new ApiError("not-in-file", "", 404);
  }
}

function gunzip(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export function findTransport(): Transport {
  const data = document.getElementById("regard-data");
  return data ? new FileTransport(JSON.parse(data.textContent) as FileData) : new ServerTransport();
}
