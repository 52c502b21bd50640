"""Versions of this package, in place of those of IREE's."""

from importlib import metadata

try:
    VERSION = metadata.version("incarnate")
except metadata.PackageNotFoundError:
    VERSION = "0"

PACKAGE_SUFFIX = ""
REVISIONS = {"INCARNATE": VERSION}
