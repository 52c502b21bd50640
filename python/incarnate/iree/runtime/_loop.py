"""Semaphores as futures of an asyncio loop."""

import asyncio
import atexit
import threading
from typing import Any, Callable

from ._binding import HalDevice, HalSemaphore, wait_any

__all__ = ["HalDeviceLoopBridge"]


class HalDeviceLoopBridge:
    """Sets futures of a loop when semaphores reach payloads. A thread waits for the semaphores, until `stop`."""

    def __init__(self, device: HalDevice, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Reaches the next payload when the thread has to look at what is new.
        self._control = device.create_semaphore(0)
        self._wakes = 0
        self._pending: list[tuple[HalSemaphore, int, asyncio.Future[Any], Any]] = []
        self._stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="HalDeviceLoopBridge", daemon=True)
        self._thread.start()
        # A thread that is in a wait while the interpreter shuts down could not leave it.
        atexit.register(self.stop)

    def on_semaphore(self, semaphore: HalSemaphore, payload: int, value: Any) -> asyncio.Future[Any]:
        """Returns a future that becomes `value` when the semaphore reaches the payload, or raises the semaphore's failure."""
        future: asyncio.Future[Any] = self._loop.create_future()
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
        atexit.unregister(self.stop)
        self._thread.join()

    def _wake(self) -> None:
        self._wakes += 1
        self._control.signal(self._wakes)

    def _run(self) -> None:
        waiting: list[tuple[HalSemaphore, int, asyncio.Future[Any], Any]] = []
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

    def _settle(self, semaphore: HalSemaphore, payload: int, future: asyncio.Future[Any], value: Any) -> bool:
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
    def _set(setter: Callable[[Any], None], future: asyncio.Future[Any], value: Any) -> None:
        if not future.done():
            setter(value)

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop is closed: no code waits for its futures.
            pass
