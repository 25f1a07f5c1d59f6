"""Pith makes neural-network checkpoints small and runs them fast on CPUs.

>>> import numpy as np
>>> w = np.array([[0.5, -1.0], [2.0, 4.0]], dtype=np.float32)
>>> q = pith.quantize(w, "int8-row")
>>> q.stored_bytes, w.nbytes
(12, 16)
>>> q.dequantize().round(2)
array([[ 0.5 , -1.  ],
       [ 2.02,  4.  ]], dtype=float32)

Arrays of numpy go in and come out; contiguous ones are used where they are. float32, float16
and bfloat16 (ml_dtypes, or uint16 with dtype="bf16") are taken as they are, other numbers are
converted to float32. Names and results are those of the C++ library; whatever fails raises a
subclass of pith.Error with the same message. The interpreter is free while Pith works.
"""

from collections.abc import Mapping as _Mapping

from ._core import *  # noqa: F403
from ._core import Checkpoint as _Checkpoint
from ._core import __version__ as __version__
from ._core import _set_threads

_Mapping.register(_Checkpoint)


class set_threads:
    """Limits Pith to so many threads; 0 is no limit. As a context manager, until its end.

    >>> with pith.set_threads(1):
    ...     pith.threads()
    1

    No result depends on the number of threads.
    """

    def __init__(self, threads: int) -> None:
        self._before = _set_threads(threads)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        _set_threads(self._before)


__all__ = [name for name in dir() if not name.startswith("_")] + ["__version__"]
