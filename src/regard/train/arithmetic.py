"""What computes a training: all that can change the last bits of a result besides settings, data and seed.

Every checkpoint records it. A run that is resumed with other arithmetic ends elsewhere than an unbroken one, so the
change is refused unless it was asked for.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from regard.config import TrainConfig
from regard.core.precision import choose_dtype, cpu_has_vnni, cpu_matrix_units, takes_int8
from regard.kernels.loader import NoKernelsError, library, load
from regard.kernels.training import TRAINING

NO_KERNELS = "none"
# A field that follows a setting: if the setting was changed, so that the change is no surprise, it is only reported.
SETTINGS = {"precision": "train.precision", "threads": "train.threads"}


@dataclass(frozen=True)
class Arithmetic:
    device: str  # "cpu", or the GPU's name
    precision: str  # of the products and of what lies between them, as chosen
    kernels: str  # the build of the C++ kernels, or NO_KERNELS
    instruction_set: str
    threads: int
    torch: str  # its version
    cpu: str  # its name


def choose_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def arithmetic_of(train: TrainConfig) -> Arithmetic:
    """What a training with these settings computes with in this process."""
    device = choose_device()
    native = library(TRAINING)
    between = str(choose_dtype(train.precision, device)).removeprefix("torch.")
    return Arithmetic(
        device="cpu" if device.type == "cpu" else torch.cuda.get_device_name(device),
        precision=f"int8 and {between}" if native is not None and takes_int8(train.precision, device) else between,
        kernels=NO_KERNELS if native is None else native.build,
        instruction_set=instruction_set(),
        threads=train.threads or torch.get_num_threads(),
        torch=torch.__version__,
        cpu=cpu_name(),
    )


def instruction_set() -> str:
    """What PyTorch and oneDNN use of the CPU's instructions, and the limit that was set for them."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "")
    parts = [torch.backends.cpu.get_cpu_capability(), cpu_matrix_units(), "VNNI" if cpu_has_vnni() else ""]
    return " + ".join(filter(None, parts)) + (f", limited by ONEDNN_MAX_CPU_ISA={limit}" if limit else "")


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def why_no_kernels() -> str | None:
    """Why a training computes without the C++ kernels; None if it has them."""
    if library(TRAINING) is not None:
        return None
    try:
        load(TRAINING)
    except NoKernelsError as error:
        return str(error)
    return "they could not be loaded at first"


def changes(before: Arithmetic, now: Arithmetic) -> Mapping[str, str]:
    """The fields that differ, each with its two values."""
    pairs = {one.name: (getattr(before, one.name), getattr(now, one.name)) for one in fields(Arithmetic)}
    return {name: f"{name}: {then} → {here}" for name, (then, here) in pairs.items() if then != here}
