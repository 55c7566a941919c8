// What the page was delivered with decides who answers its requests.
import { PageTransport, type ModelSource } from "./pageTransport";
import { ApiError, decode, expand, FileTransport, ServerTransport, type FileData, type GivenSentence, type Transport } from "./transport";
import type { Models } from "./types";

/** What `regard explain --live` writes into the page; its model is an element of its own. */
interface LiveData {
  models: Models;
  sentence: GivenSentence;
}

/** What `regard site` writes into the page. */
interface SiteData {
  models: Models;
  /** The file of each model, by its id. */
  files: Record<string, string>;
}

function embedded<Data>(id: string): Data | null {
  const element = document.getElementById(id);
  return element ? (JSON.parse(element.textContent) as Data) : null;
}

export function findTransport(): Transport {
  const file = embedded<FileData>("regard-data");
  if (file) return new FileTransport(file);
  const live = embedded<LiveData>("regard-live");
  if (live) return new PageTransport({ models: live.models, packed: (id) => decode(document.getElementById(`regard-model-${id}`)!.textContent) }, null, live.sentence);
  const site = embedded<SiteData>("regard-site");
  if (site) return new PageTransport({ models: site.models, packed: (id) => fetchModel(site.files[id]) }, null);
  const server = new ServerTransport();
  const source: ModelSource = { models: null, packed: (id) => server.request("GET", `/api/models/${id}/packed`, null) };
  return new PageTransport(source, server);
}

async function fetchModel(file: string): Promise<ArrayBuffer> {
  const response = await fetch(file).catch(() => null);
  if (!response?.ok) throw new ApiError("no-model-file", file, response?.status ?? 0);
  return expand(await response.arrayBuffer());
}
