"""The package as such: examples in docstrings, exceptions, the command, import time."""

import doctest
import inspect
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import pith
import pith.hf


def documented():
    yield "pith", pith.__doc__
    yield "pith.hf", pith.hf.__doc__
    for name in pith.__all__:
        thing = getattr(pith, name)
        doc = getattr(thing, "__doc__", None)
        if doc:
            yield name, doc
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if getattr(value, "__doc__", None) and not member.startswith("__"):
                    yield f"{name}.{member}", value.__doc__


EXAMPLES = [(name, doc) for name, doc in documented() if isinstance(doc, str) and ">>>" in doc]


@pytest.mark.parametrize("name, doc", EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_examples_of_docstrings_run(name, doc):
    test = doctest.DocTestParser().get_doctest(doc, {"pith": pith, "np": np}, name, None, None)
    out = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=out.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(out)


def test_there_are_examples():
    assert len(EXAMPLES) >= 20


def test_every_public_name_is_documented():
    bare = [n for n in pith.__all__ if not getattr(pith, n).__doc__]
    assert bare == []


def test_stubs_know_every_name():
    stub = pathlib.Path(pith._core.__file__).with_name("_core.pyi")
    assert stub.exists(), "stubs are made by the target pith_python_stub"
    text = stub.read_text()
    assert "-> object" not in text and "numpy.ndarray" in text
    names = set(re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE))
    assert set(pith.__all__) - names - {"set_threads", "__version__"} == set()


def test_exceptions_are_what_python_calls_them():
    for kind, base in {
        pith.InvalidArgument: ValueError,
        pith.NotFound: FileNotFoundError,
        pith.AlreadyExists: FileExistsError,
        pith.Corrupt: ValueError,
        pith.Unsupported: NotImplementedError,
        pith.NotFinite: ValueError,
        pith.IoError: OSError,
        pith.NoSpace: OSError,
        pith.GateFailed: Exception,
        pith.Cancelled: Exception,
    }.items():
        assert issubclass(kind, pith.Error) and issubclass(kind, base)


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "pith", *words], capture_output=True, text=True, timeout=60
    )


def test_the_command(tmp_path):
    path = tmp_path / "w.safetensors"
    pith.save(path, {"fc.weight": np.ones((2, 3), np.float32)})
    listed = run("inspect", str(path))
    assert listed.returncode == 0 and "fc.weight" in listed.stdout
    assert run("--version").stdout == f"pith {pith.__version__}\n"
    missing = run("inspect", str(tmp_path / "none.safetensors"))
    assert missing.returncode == 4 and "none.safetensors" in missing.stderr
    assert run("no-such-command").returncode == 2


def test_importing_is_quick_and_needs_no_numpy():
    code = (
        "import sys, time; t = time.perf_counter(); import pith; "
        "print(time.perf_counter() - t, 'numpy' in sys.modules, 'torch' in sys.modules)"
    )
    best = None
    for _ in range(5):
        text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        seconds, numpy, torch = text.split()
        assert numpy == torch == "False"
        best = min(float(seconds), best or 9)
    assert best < 0.15


def test_work_does_not_hold_the_interpreter():
    import threading

    x = np.random.default_rng(0).normal(size=(4096, 4096)).astype(np.float32)
    ticks, done = [], threading.Event()

    def count():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.perf_counter()
    pith.prune(x, 0.5)
    end = time.perf_counter()
    done.set()
    thread.join()
    during = [t for t in ticks if begin < t < end]
    assert len(during) >= 3, f"{len(during)} ticks in {end - begin:.3f} s"
