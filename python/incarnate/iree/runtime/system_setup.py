"""Drivers and devices of the process."""

import logging
import os
import threading
from typing import Collection, Optional, Sequence

from ._binding import HalDevice, HalDriver, get_cached_hal_driver

__all__ = ["get_device", "get_driver", "get_first_device", "query_available_drivers"]

DEFAULT_DRIVER_NAMES = "local-task,local-sync"

_devices: dict[str, HalDevice] = {}
_lock = threading.RLock()


def _forget_devices() -> None:
    """Begins anew in a child of `fork`, which has none of the threads of its parent's devices."""
    global _devices, _lock
    _devices, _lock = {}, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_devices)


def query_available_drivers() -> Collection[str]:
    """Returns the names of the drivers."""
    return HalDriver.query()


def get_driver(device_uri: str) -> HalDriver:
    """Returns the driver of a device's URI, or of a name: the same one each time."""
    return get_cached_hal_driver(device_uri)


def get_device(device_uri: str, cache: bool = True) -> HalDevice:
    """Returns the device of a URI such as `local-task`: the same one each time, unless `cache` is false."""
    with _lock:
        device = _devices.get(device_uri) if cache else None
        if device is None:
            device = get_driver(device_uri).create_device_by_uri(device_uri)
            if cache:
                _devices[device_uri] = device
        return device


def get_first_device(device_uris: Optional[Sequence[str]] = None, cache: bool = True) -> HalDevice:
    """Returns the first device of a list of URIs that exists.

    Without a list, the environment variable IREE_DEFAULT_DEVICE has one, separated by commas; without that, it is the cores of the
    host.

    Raises:
      ValueError: if no driver is known by its name.
      RuntimeError: if a driver is known and creates no device.
    """
    if device_uris is None:
        names = os.environ.get("IREE_DEFAULT_DEVICE", DEFAULT_DRIVER_NAMES)
        device_uris = [name.strip() for name in names.split(",")]
    failure = None
    for device_uri in device_uris:
        try:
            return get_device(device_uri, cache=cache)
        except ValueError:
            # No driver has the name.
            continue
        except Exception as error:
            logging.info("device %s is not there: %s", device_uri, error)
            failure = error
    if failure is not None:
        raise RuntimeError(f"no device of {device_uris} could be created") from failure
    raise ValueError(f"No device found from list {device_uris}")
