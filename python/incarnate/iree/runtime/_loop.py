"""Semaphores as futures of an asyncio loop."""

import asyncio
import threading
from typing import Any

from ._binding import HalSemaphore, wait_any

__all__ = ["HalDeviceLoopBridge"]


class HalDeviceLoopBridge:
    """Sets futures of a loop when semaphores reach payloads. A thread waits for the semaphores, until `stop`."""

    def __init__(self, device, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        # Reaches the next payload when the thread has to look at what is new.
        self._control = device.create_semaphore(0)
        self._wakes = 0
        self._pending: list[tuple[HalSemaphore, int, asyncio.Future, Any]] = []
        self._stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="HalDeviceLoopBridge", daemon=True)
        self._thread.start()

    def on_semaphore(self, semaphore, payload: int, value) -> asyncio.Future:
        """Returns a future that becomes `value` when the semaphore reaches the payload, or raises the semaphore's failure."""
        future = self._loop.create_future()
        with self._lock:
            if self._stopped:
                raise RuntimeError("the bridge was stopped")
            self._pending.append((semaphore, payload, future, value))
            self._wake()
        return future

    def stop(self) -> None:
        """Ends the thread. Futures that are not set are cancelled."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._wake()
        self._thread.join()

    def _wake(self):
        self._wakes += 1
        self._control.signal(self._wakes)

    def _run(self):
        waiting: list[tuple[HalSemaphore, int, asyncio.Future, Any]] = []
        while True:
            with self._lock:
                waiting += self._pending
                self._pending = []
                stopped, wakes = self._stopped, self._wakes
            if stopped:
                break
            waiting = [entry for entry in waiting if not self._settle(*entry)]
            wait_any([(self._control, wakes + 1)] + [(semaphore, payload) for semaphore, payload, _, _ in waiting])
        for _, _, future, _ in waiting:
            self._call(future.cancel)

    def _settle(self, semaphore, payload, future, value):
        """Sets the future of a semaphore that has reached its payload or failed; returns whether it did."""
        try:
            if semaphore.query() < payload:
                return False
        except RuntimeError as error:
            self._call(self._set, future.set_exception, future, error)
        else:
            self._call(self._set, future.set_result, future, value)
        return True

    @staticmethod
    def _set(setter, future, value):
        if not future.done():
            setter(value)

    def _call(self, function, *arguments):
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop is closed: no code waits for its futures.
            pass
