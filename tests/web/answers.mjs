// Answers requests on stdin, one JSON object per line, with the page's own model: node answers.mjs BUILD MODEL...
// An answer is one letter (J: JSON, B: binary, E: an error as JSON), its length in four bytes, little-endian, and its bytes.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [build, ...models] = process.argv.slice(2);
const { Answers } = await import(pathToFileURL(build));
const answers = new Answers();

function send(kind, bytes) {
  const head = Buffer.alloc(5, kind);
  head.writeUInt32LE(bytes.length, 1);
  process.stdout.write(Buffer.concat([head, bytes]));
}

const sendError = ({ message, hint, status, stack }) => send("E", Buffer.from(JSON.stringify({ message, hint, status, stack })));

models.forEach((path, index) => {
  const file = readFileSync(path);
  try {
    answers.add(String(index), file.buffer.slice(file.byteOffset, file.byteOffset + file.length));
  } catch (error) {
    sendError(error);
  }
});
for await (const line of createInterface({ input: process.stdin })) {
  try {
    const request = JSON.parse(line);
    if (request.path === "/api/translate/lines") {
      const lines = [];
      await answers.stream(request.body, (line) => void lines.push(line));
      send("J", Buffer.from(JSON.stringify(lines)));
      continue;
    }
    const found = await answers.answer(request);
    send(...(found instanceof ArrayBuffer ? ["B", Buffer.from(found)] : ["J", Buffer.from(JSON.stringify(found))]));
  } catch (error) {
    sendError(error);
  }
}
