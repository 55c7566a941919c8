// Where answers come from: the server, or the data inside a file that `regard explain` wrote.

export interface Source {
  /** A file holds one sentence and cannot compute. */
  readonly still: boolean;
  readonly sentence: { model: string; text: string } | null;
  ask(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<ArrayBuffer>;
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

  async ask(method: "GET" | "POST", path: string, body: unknown, signal?: AbortSignal): Promise<ArrayBuffer> {
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
    return response.arrayBuffer();
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
}

class File implements Source {
  readonly still = true;
  readonly sentence: { model: string; text: string };

  constructor(private readonly data: FileData) {
    this.sentence = { model: data.model, text: data.text };
  }

  async ask(method: "GET" | "POST", path: string, body: unknown): Promise<ArrayBuffer> {
    const side = path === "/api/tokens" ? ` ${(body as { side: string }).side}` : "";
    const found = this.data.responses[`${method} ${path}${side}`];
    if (found === undefined) throw new Refusal("not-in-file", "", 404);
    const bytes = Uint8Array.from(atob(found), (character) => character.charCodeAt(0));
    return bytes[0] === 0x1f && bytes[1] === 0x8b ? inflate(bytes) : bytes.buffer;
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
