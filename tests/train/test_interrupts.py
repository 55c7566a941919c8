"""Signals to the process that trains: it finishes its step and saves; a second one stops it at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from regard.train.loop import Trainer
from regard.train.reports import StepReport

MESSAGE = "stopping after this step; press Ctrl-C again to stop at once"


def interrupt_at(trainer: Trainer, step: int, times: int) -> None:
    """Send this process an interrupt when the step is reported."""
    said: Any = trainer.listener
    report = said.step

    def interrupt(reported: StepReport) -> None:
        report(reported)
        if reported.step == step:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    said.step = interrupt


def test_one_finishes_the_step_and_saves(make_trainer: Callable[..., Trainer]) -> None:
    trainer, before = make_trainer(), signal.getsignal(signal.SIGINT)
    interrupt_at(trainer, 3, times=1)
    assert trainer.train() == "interrupted"
    assert (trainer.progress.step, trainer.progress.interruptions) == (3, [3])
    assert trainer.folder.saved_steps() == [3]
    heard: Any = trainer.listener
    assert heard.messages.count(MESSAGE) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_step_that_is_saved_anyway_is_no_interruption(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer()
    interrupt_at(trainer, 4, times=1)
    assert trainer.train() == "interrupted"
    assert trainer.progress.interruptions == []
    assert trainer.folder.saved_steps() == [4]


def test_a_second_stops_at_once(make_trainer: Callable[..., Trainer]) -> None:
    trainer, before = make_trainer(), signal.getsignal(signal.SIGINT)
    interrupt_at(trainer, 3, times=2)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert trainer.folder.saved_steps() == []
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_the_caller_interrupts(make_trainer: Callable[..., Trainer]) -> None:
    """Only the main thread may handle signals."""
    trainer = make_trainer()
    heard: Any = trainer.listener
    report = heard.step

    def interrupt(reported: StepReport) -> None:
        report(reported)
        trainer.interrupted = reported.step == 5

    heard.step = interrupt
    endings: list[str] = []
    thread = Thread(target=lambda: endings.append(trainer.train()))
    thread.start()
    thread.join()
    assert endings == ["interrupted"]
    assert trainer.folder.saved_steps() == [4, 5]
