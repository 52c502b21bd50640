"""The command `incarnate`."""

import signal
import sys

from . import _native


def main() -> int:
    # Ctrl-C ends the command as it ends one that is not written in Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.command_line(["incarnate", *sys.argv[1:]])
