// Where answers come from: the server, or the data inside a file that `regard explain` wrote.

export interface Source {
  /** A file holds one sentence and cannot compute. */
  readonly still: boolean;
  readonly sentence: { model: string; text: string } | null;
  /** What a file had no room for. */
  readonly leftOut: string[];
  ask(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<ArrayBuffer>;
  /** An answer that comes line by line, while it is made. */
  follow(path: string, body: unknown, hear: (line: string) => void, signal?: AbortSignal): Promise<void>;
}

/** An answer that is no answer, in words for the person: what is wrong, and what to do. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly hint = "",
    readonly status = 0,
  ) {
    super(message);
  }
}

class Server implements Source {
  readonly still = false;
  readonly sentence = null;
  readonly leftOut = [];

  async ask(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<ArrayBuffer> {
    return (await this.send(method, path, body, signal)).arrayBuffer();
  }

  async follow(path: string, body: unknown, hear: (line: string) => void, signal?: AbortSignal): Promise<void> {
    const response = await this.send("POST", path, body, signal);
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    let begun = "";
    for (;;) {
      const piece = await reader?.read().catch((failure: unknown) => {
        if (signal?.aborted) throw failure;
        throw new Refusal("offline");
      });
      if (!piece || piece.done) return;
      const lines = (begun + decoder.decode(piece.value, { stream: true })).split("\n");
      begun = lines.pop() ?? "";
      lines.forEach(hear);
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
      throw new Refusal("offline");
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

async function refusal(response: Response): Promise<Refusal> {
  try {
    const said = (await response.json()) as { error?: string; hint?: string };
    return new Refusal(said.error ?? response.statusText, said.hint ?? "", response.status);
  } catch {
    return new Refusal(`${response.status} ${response.statusText}`, "", response.status);
  }
}

interface FileData {
  model: string;
  text: string;
  responses: Record<string, string>;
  left_out: string[];
}

class File implements Source {
  readonly still = true;
  readonly sentence: { model: string; text: string };
  readonly leftOut: string[];

  constructor(private readonly data: FileData) {
    this.sentence = { model: data.model, text: data.text };
    this.leftOut = data.left_out;
  }

  async ask(method: "GET" | "POST", path: string, body: unknown): Promise<ArrayBuffer> {
    const side = path === "/api/tokens" ? ` ${(body as { side: string }).side}` : "";
    const found = this.data.responses[`${method} ${path}${side}`];
    if (found === undefined) throw new Refusal("not-in-file", "", 404);
    const bytes = Uint8Array.from(atob(found), (character) => character.charCodeAt(0));
    return bytes[0] === 0x1f && bytes[1] === 0x8b ? inflate(bytes) : bytes.buffer;
  }

  follow(): Promise<void> {
    throw new Refusal("not-in-file", "", 404);
  }
}

function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export function findSource(): Source {
  const data = document.getElementById("regard-data");
  return data ? new File(JSON.parse(data.textContent) as FileData) : new Server();
}
