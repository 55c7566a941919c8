"""`regard train` as a child of the server.

    python -P -m regard.serve.toy_process RECIPE --run FOLDER

Its standard input is a pipe that only the server holds open. When the server ends, however it ends, the pipe is closed,
and the training finishes its step, saves and ends.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

SHUTDOWN_SECONDS = 10


def end_with_parent() -> None:
    """Wait until the pipe is closed; then terminate this process, at last by force."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv[1:1] = ["train"]
    runpy.run_module("regard", run_name="__main__", alter_sys=True)  # the commands are in a layer above this one
