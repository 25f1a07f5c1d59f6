"""What progress=True shows: one line on stderr that is written over, or nothing off a terminal."""

import sys
import time


class Line:
    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._shown = 0.0
        self._terminal = sys.stderr.isatty() or "ipykernel" in sys.modules

    def __call__(self, item: str, done: int, total: int) -> None:
        now = time.monotonic()
        last = done >= total
        if not self._terminal or (now - self._shown < 0.1 and not last):
            return
        self._shown = now
        seconds = max(now - self._begin, 1e-9)
        text = f"{100 * done / max(total, 1):3.0f} %  {done / seconds / 1e6:7.1f} MB/s  {item}"
        sys.stderr.write("\r" + text[:78].ljust(78) + ("\n" if last else ""))
        sys.stderr.flush()
