import os
import pathlib
import signal

import numpy as np
import pytest

# A shell that starts the tests in the background has Ctrl-C ignored, by them and all they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def shared(*parts: str) -> pathlib.Path:
    """A file of the shared folder, or a skipped test where there is none."""
    base = pathlib.Path(os.environ.get("PITH_SHARED", ROOT.parent / "shared"))
    path = base.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not here (PITH_SHARED)")
    return path


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)
