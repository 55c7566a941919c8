// The page's own model in a worker, so that the page stays responsive. Requests are answered one at a time, in order; a search
// looks for messages between its steps, so that it can be cancelled.
import type { Line } from "../api/types";
import { ModelError } from "./config";
import { Answers, type Request } from "./requests";

export type ToWorker =
  | { id: number; kind: "add"; model: string; packed: ArrayBuffer }
  | { id: number; kind: "answer"; request: Request }
  | { id: number; kind: "stream"; body: unknown }
  | { id: number; kind: "cancel" };

/** An answer ends a request; lines may come before it. */
export type FromWorker =
  | { id: number; kind: "line"; line: Line }
  | { id: number; kind: "answer"; answer: object | ArrayBuffer | null }
  | { id: number; kind: "error"; message: string; hint: string; status: number };

const answers = new Answers();
const cancelled = new Set<number>();
let earlier: Promise<void> = Promise.resolve();

const send = (message: FromWorker, transfer: Transferable[] = []): void => self.postMessage(message, { transfer });

self.onmessage = ({ data }: MessageEvent<ToWorker>): void => {
  if (data.kind === "cancel") cancelled.add(data.id);
  else earlier = earlier.then(() => respond(data));
};

async function respond(message: Exclude<ToWorker, { kind: "cancel" }>): Promise<void> {
  const { id } = message;
  try {
    await pause(id); // what was cancelled while it waited is not begun
    const answer = await compute(message);
    send({ id, kind: "answer", answer }, answer instanceof ArrayBuffer ? [answer] : []);
  } catch (failure) {
    const { hint = "", status = 500 } = failure instanceof ModelError ? failure : {};
    send({ id, kind: "error", message: failure instanceof Error ? failure.message : String(failure), hint, status });
  }
  cancelled.delete(id);
}

async function compute(message: Exclude<ToWorker, { kind: "cancel" }>): Promise<object | ArrayBuffer | null> {
  const { id } = message;
  switch (message.kind) {
    case "add":
      answers.add(message.model, message.packed);
      return null;
    case "answer":
      return answers.answer(message.request, () => pause(id));
    case "stream":
      await answers.stream(message.body, (line) => {
        send({ id, kind: "line", line });
        return pause(id);
      });
      return null;
  }
}

const turn = new MessageChannel();

/** Let messages arrive; raise if the request has been cancelled. */
async function pause(id: number): Promise<void> {
  await new Promise((resume) => {
    turn.port1.onmessage = resume;
    turn.port2.postMessage(null);
  });
  if (cancelled.has(id)) throw new ModelError("the request was cancelled");
}
