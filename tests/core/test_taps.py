"""Taps, on a model of three lines; the Transformer's own are tested with it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.taps import Tap, hook_taps, record, tap_paths


class Doubler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = Tap(), Tap()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(2 * self.before(x))  # type: ignore[no-any-return]


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Doubler(), Doubler()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


ONE = torch.ones(1)


def all_silent(model: nn.Module) -> bool:
    return not any(module.hooked for module in model.modules() if isinstance(module, Tap))


def test_a_tap_without_a_hook_is_the_identity() -> None:
    tap = Tap()
    x = torch.randn(3)
    assert tap(x) is x
    assert not tap.hooked
    assert not tap.state_dict()


def test_paths_are_in_the_order_of_construction() -> None:
    assert tap_paths(Pair()) == ["layers.0.before", "layers.0.after", "layers.1.before", "layers.1.after"]


def test_record_keeps_each_pass_by_path() -> None:
    model = Pair()
    with record(model, "*.after") as trace:
        model(ONE)
        model(3 * ONE)
    assert trace.paths() == ["layers.0.after", "layers.1.after"]
    assert [x.item() for x in trace.values["layers.0.after"]] == [2, 6]
    assert trace["layers.1.after"].item() == 12
    assert trace.kernel == "as configured"
    model(ONE)
    assert len(trace.values["layers.0.after"]) == 2


def test_record_without_a_pattern_keeps_all() -> None:
    model = Pair()
    with record(model) as trace:
        model(ONE)
    assert trace.paths() == tap_paths(model)


def test_patterns_that_overlap_keep_a_value_once() -> None:
    model = Pair()
    with record(model, "*.after", "layers.0.*", "*") as trace:
        model(ONE)
    assert {path: len(values) for path, values in trace.values.items()} == dict.fromkeys(tap_paths(model), 1)


def test_a_recording_is_a_copy_without_history() -> None:
    model = Pair()
    x = torch.ones(1, requires_grad=True)
    with record(model, "layers.0.before") as trace:
        model(x)
    with torch.no_grad():
        x.fill_(9)
    assert trace["layers.0.before"].item() == 1
    assert not trace["layers.0.before"].requires_grad


def test_a_hook_that_returns_a_tensor_replaces_the_value() -> None:
    model = Pair()
    heard: list[str] = []

    def ten(path: str, x: Tensor) -> Tensor:
        heard.append(path)
        return x + 10

    with hook_taps(model, {"layers.0.after": ten}) as paths:
        assert model(ONE).item() == 2 * (2 + 10)
    assert paths == heard == ["layers.0.after"]
    assert model(ONE).item() == 4
    assert all_silent(model)


def test_hooks_on_one_tap_are_called_in_order() -> None:
    model = Pair()
    seen: list[float] = []
    with hook_taps(
        model,
        {
            "layers.1.after": lambda _, x: x + 1,
            "layers.1.*ter": lambda _, x: x * 10,
            "*.1.after": lambda _, x: seen.append(x.item()),
        },
    ):
        assert model(ONE).item() == 50
    assert seen == [50]


def test_nested_hooks_are_called_outer_first_and_the_outer_stays() -> None:
    model = Pair()
    with hook_taps(model, {"layers.1.after": lambda _, x: x + 1}):
        with hook_taps(model, {"layers.1.after": lambda _, x: x * 10}), record(model, "layers.1.after") as trace:
            assert model(ONE).item() == 50
        assert trace["layers.1.after"].item() == 50
        assert model(ONE).item() == 5
    assert model(ONE).item() == 4
    assert all_silent(model)


def test_hooks_are_removed_after_an_error_in_the_block() -> None:
    model = Pair()
    heard = []

    def fail() -> None:
        heard.append(not all_silent(model))
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"), record(model):
        fail()
    assert heard == [True]
    assert all_silent(model)


def test_hooks_are_removed_after_an_error_in_a_hook() -> None:
    model = Pair()

    def fail(path: str, x: Tensor) -> Tensor:
        raise RuntimeError(path)

    with pytest.raises(RuntimeError, match=r"layers\.1\.before"), hook_taps(model, {"layers.1.before": fail}):
        model(ONE)
    assert all_silent(model)
    assert model(ONE).item() == 4


def test_an_unknown_pattern_is_an_error_that_lists_the_taps() -> None:
    model = Pair()
    with (
        pytest.raises(KeyError, match=r"no tap matches '\*\.weight'.*layers\.0\.before"),
        hook_taps(model, {"*.after": lambda _, x: x, "*.weight": lambda _, x: x}),
    ):
        pass
    assert all_silent(model)


@pytest.mark.parametrize(("tap", "kernel"), [("weights", "reference"), ("scores", "reference"), ("q", "as configured")])
def test_the_recording_says_which_kernel(tap: str, kernel: str) -> None:
    attention = MultiHeadAttention(4, 2)
    with record(attention, tap) as trace:
        attention(torch.randn(1, 3, 4))
    assert trace.kernel == kernel
    assert trace.paths() == [tap]
