// Playing a lesson: each step sets the sentence, the panel, the selection and the changes that it names.
import type { Intervention } from "../api/types";
import { readingUnits } from "../format/labels";
import { session } from "../state/session.svelte";
import type { Trace } from "../state/trace";
import { catalogue, MAIN_LESSON } from "./catalogue.svelte";
import { findWord, interventionsOf } from "./measure";
import type { Lesson, Step } from "./parse";

export function currentLesson(): Lesson | null {
  return session.view.lesson === null ? null : catalogue.find(session.view.course || MAIN_LESSON);
}

/** Begin a lesson, or go to one of its steps. */
export async function enter(lesson: Lesson, number: number): Promise<void> {
  const step = lesson.steps[number];
  if (!step) return;
  if (lesson.id === MAIN_LESSON && session.view.lesson === null) session.selectMainWord();
  Object.assign(session.view, { panel: step.panel, lesson: number, course: lesson.id === MAIN_LESSON ? "" : lesson.id, cell: null });
  const model = catalogue.modelFor(lesson);
  const text = step.sentence ?? lesson.sentence ?? (model === session.model ? null : session.view.text);
  if (text !== null && model) await session.ask(model, text, step.options);
  const original = session.original?.trace;
  // A lesson about any sentence leaves the model as it was found.
  if (original && (text !== null || step.changes.length)) {
    const wanted = step.changes.flatMap((one) => interventionsOf(one, original));
    if (JSON.stringify(wanted) !== JSON.stringify(session.view.interventions)) await session.setInterventions(wanted);
  }
  if (session.view.lesson === number && session.trace) select(step, session.trace);
}

function select(step: Step, trace: Trace): void {
  const { view } = session;
  const source = step.source === null ? null : findWord(trace.srcWords, step.source);
  const target = step.target === null ? null : findWord(trace.tgtWords, step.target);
  if (source) session.pickSource(source.from);
  if (target) session.showStep(target.from);
  if (step.kind !== null) view.kind = step.kind;
  if (step.layer !== null) view.layer = Math.min(step.layer, trace.layers(view.kind) - 1);
  if (step.head !== null) view.head = Math.min(step.head, trace.heads(view.kind, view.layer) - 1);
  const key = step.key === null ? null : findWord(readingUnits(trace.columnPieces(view.kind)), step.key);
  if (key) view.cell = { row: view.kind === "encoder" ? view.position : view.step, column: key.from };
}

/** The next step, or the one before. */
export function move(by: number): void {
  const lesson = currentLesson();
  const number = session.view.lesson;
  if (lesson && number !== null) void enter(lesson, Math.max(0, Math.min(lesson.steps.length - 1, number + by)));
}

/** End the lesson, and undo what it changed. */
export async function leave(): Promise<void> {
  const changed = currentLesson()?.steps.some((step) => step.changes.length) ?? false;
  session.view.lesson = null;
  session.view.course = "";
  session.setSlides(false);
  if (changed && session.view.interventions.length) await session.setInterventions([] as Intervention[]);
}
