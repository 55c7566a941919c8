from __future__ import annotations

import io
import math
import os
import re
import sys

import pytest
from rich.console import Console

from regard.cli.display import BARS, LiveDisplay, PlainDisplay, balance_text, clock, sparkline
from regard.train.reports import Balance, Sample, StepReport, ValidationReport

STEP = StepReport(
    step=12_350,
    epoch=7,
    loss=2.3456,
    nll=math.log(8.25),
    lr=7.1e-4,
    grad_norm=0.8,
    tokens_per_second=21_345.6,
    seconds=3725.0,
    seconds_left=95.0,
)
SAMPLES = (
    Sample("Zwei [bold]Hunde[/bold] [/] laufen", "Two dogs [run]", "Two [red]dogs"),
    Sample("两只狗在雪地里跑。" * 8, "A reference", "An output"),
)
VALIDATION = ValidationReport(12_000, 7, math.log(4.5), 35.21, 58.99, 3.21, SAMPLES, best=True)


def plain(*reports: StepReport | ValidationReport | str) -> str:
    out = io.StringIO()
    with PlainDisplay(out) as display:
        hear(display, *reports)
    return out.getvalue()


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=60, record=True, legacy_windows=False)


def live(width: int, *reports: StepReport | ValidationReport | str, title: str = "reverse → runs/reverse") -> str:
    """The lines above the panel, and the panel itself as it stands at the end."""
    console = terminal(width)
    with LiveDisplay(title, console) as display:
        hear(display, *reports)
    drawn = console.export_text()
    last = terminal(width)
    last.print(display.draw())
    frame = last.export_text()
    assert frame.splitlines()[1] in drawn.replace("╯╭", "╯\n╭"), "the last frame was drawn"
    return re.sub(r"╭[^╰]*╰[^╯]*╯\n?", "", drawn) + frame


def hear(display: PlainDisplay | LiveDisplay, *reports: StepReport | ValidationReport | str) -> None:
    for report in reports:
        match report:
            case StepReport():
                display.step(report)
            case ValidationReport():
                display.validation(report)
            case str():
                display.message(report)


def test_a_line_for_a_step() -> None:
    assert plain(STEP) == (
        "step  12,350  epoch   7  loss 2.346  ppl 8.25  lr 7.10e-04  21,346 tokens/s  1:02:05 elapsed  1:35 left\n"
    )


def test_lines_for_a_validation() -> None:
    first, *samples = plain(VALIDATION).splitlines()
    assert first == "validation at step 12,000  loss 1.5041  ppl 4.50  BLEU 35.21  chrF 58.99  3.2 s  (best)"
    assert samples[:3] == ["    Zwei [bold]Hunde[/bold] [/] laufen", "  → Two [red]dogs", "  = Two dogs [run]"]
    assert len(samples) == 6
    untranslated = ValidationReport(5, 1, 1.0, None, None, 0.1, ())
    assert plain(untranslated) == "validation at step 5  loss 1.0000  ppl 2.72  0.1 s\n"


def test_an_empty_translation_is_shown() -> None:
    samples = Sample("我爱你", "I love you", ""), Sample("", "", "a text from nothing")
    rows = plain(ValidationReport(5, 1, 1.0, None, None, 0.1, samples)).splitlines()[1:]
    assert rows == ["    我爱你", "  → ", "  = I love you", "  → a text from nothing"]


def test_a_message_as_it_is() -> None:
    assert plain("changed: train.lr: [0.1] → 0.2") == "changed: train.lr: [0.1] → 0.2\n"


def test_the_panel_shows_every_number() -> None:
    shown = live(100, STEP, VALIDATION)
    for name, value in {
        "step": "12,350",
        "epoch": "7",
        "loss": "2.346",
        "perplexity": "8.25",
        "learning rate": "7.10e-04",
        "tokens/s": "21,346",
        "time": "1:02:05",
        "time left": "1:35",
    }.items():
        assert name in shown
        assert value in shown
    assert "reverse → runs/reverse" in shown
    for text in ("validation at step 12,000", "BLEU 35.21", "chrF 58.99", "(best)", "An output", "A reference"):
        assert text in shown


def test_the_panel_fits_into_a_hundred_columns() -> None:
    lines = live(100, STEP, VALIDATION).splitlines()
    names = next(line for line in lines if "learning rate" in line)
    assert "step" in names
    assert "time left" in names, "the numbers fit on one line"
    assert max(map(len, lines)) <= 100
    validation = next(line for line in lines if "validation at" in line)
    assert "(best)" in validation


def test_brackets_are_text_and_not_markup() -> None:
    shown = live(100, "a message with [red]brackets[/red] [/]", STEP, VALIDATION, title="[bold]run[/bold] → [/x]")
    for text in ("Zwei [bold]Hunde[/bold] [/] laufen", "Two dogs [run]", "Two [red]dogs"):
        assert text in shown
    assert "[bold]run[/bold] → [/x]" in shown
    assert "a message with [red]brackets[/red] [/]" in shown


def test_a_long_sentence_without_spaces_is_shown_whole() -> None:
    shown = "".join(character for character in live(60, STEP, VALIDATION) if character in "两只狗在雪地里跑。")
    assert shown == SAMPLES[1].source


@pytest.mark.parametrize("width", [5, 12, 20, 40, 79])
def test_a_narrow_terminal_is_no_reason_to_fail(width: int) -> None:
    shown = live(width, "preparing", STEP, VALIDATION)
    assert max(map(len, shown.splitlines())) <= width
    if width > 12:
        assert "12,350" in shown


def test_before_the_first_step_messages_are_all_there_is() -> None:
    lines = live(80, "training a tokenizer", "two\nlines").splitlines()
    assert lines[:3] == ["training a tokenizer", "two", "lines"]
    assert "preparing" in lines[4]


def test_the_curve_grows_with_every_report() -> None:
    falling = [StepReport(n, 1, 9.0 - n, 1.0, 1e-3, 1.0, 100.0, 1.0, None) for n in range(8)]
    shown = live(100, *falling)
    assert BARS[::-1] in shown
    assert "9.00" in shown
    assert "2.00" in shown
    assert "?" in shown, "nobody knows the time left"


def test_a_sparkline_is_the_whole_curve() -> None:
    assert sparkline([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) == BARS
    assert sparkline([float(n // 100) for n in range(800)], width=8) == BARS
    assert len(sparkline([1.0] * 1000, width=33)) == 33
    assert sparkline([2.0, 2.0]) == BARS[0] * 2
    assert sparkline([1.0, math.inf, math.nan, 2.0]) == f"{BARS[0]}  {BARS[-1]}"
    assert sparkline([]) == ""


def test_the_clock() -> None:
    assert [clock(s) for s in (None, -3.0, 0.4, 59.6, 3599.0, 3600.0, 360_000.0)] == [
        *("?", "0:00", "0:00", "1:00", "59:59", "1:00:00", "100:00:00"),
    ]


def test_the_load_of_experts() -> None:
    assert balance_text(Balance(0.5, 2.25, 0)) == "entropy 0.50, maximum load 2.2 × mean"
    assert balance_text(Balance(0.5, 2.25, 3)) == "entropy 0.50, maximum load 2.2 × mean, 3 idle"


def test_training_continues_when_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    out = open(writer, "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", out)
    display = PlainDisplay()
    display.message("lost")
    display.step(STEP)
    assert isinstance(display.out, io.StringIO)
    assert sys.stdout is display.out
    assert display.out.getvalue().startswith("step  12,350")
    with pytest.raises(BrokenPipeError):
        out.close()


def test_a_sample_that_only_has_an_output() -> None:
    console = terminal(60)
    console.print(LiveDisplay("title", console).sample(Sample("", "", "Two dogs")))
    assert console.export_text().split() == ["translation", "Two", "dogs"]
