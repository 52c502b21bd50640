"""Where a measurement comes from: the command, the commit, the date, and the machine."""

import platform
import re
import subprocess
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    models = re.findall(r"model name\s*: (.*)", text)
    vectors = "AVX-512" if " avx512f" in text else "AVX2" if " avx2" in text else "no AVX2"
    return f"{models[0]}, {len(models)} threads, {vectors}" if models else platform.machine()


def origin(command: str) -> str:
    """Describes a measurement that begins now."""
    changed = " with changes" if output_of("git", "status", "--porcelain", "--untracked-files=no", ":!docs") else ""
    commit = output_of("git", "rev-parse", "--short=8", "HEAD")
    return f"`{command}`; commit {commit}{changed}, {date.today()}; {processor()}."
