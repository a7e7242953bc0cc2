"""Run independent tasks in this process, in several processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from .errors import InputError

S = TypeVar("S")
R = TypeVar("R")


def run(
    task: Callable[[S, int], R],
    shared: S,
    numbers: Sequence[int],
    *,
    workers: int = 1,
    scheduler: str | None = None,
) -> Iterator[R]:
    """Yield ``task(shared, number)`` for every number, in order of completion.

    Parameters
    ----------
    task : function
        A function that is defined in a module, so that other processes can find it.
    shared : object
        Data for all tasks.
    numbers : sequence of int
        The second argument of each task.
    workers : int
        Number of processes on this machine, with one thread each.  With 1, the tasks are done in this process.
    scheduler : str, optional
        Address of a Dask scheduler.  Its workers are then used in place of processes on this machine.

    Raises
    ------
    InputError
        Dask is not installed, or no scheduler answers.
    """
    if scheduler is not None:
        with client_of(scheduler) as client:
            yield from _parallel(task, shared, numbers, backend="dask", client=client, scatter=[shared])
    elif workers == 1 or len(numbers) < 2:
        for number in numbers:
            yield task(shared, number)
    else:
        with _own_libraries_first():
            yield from _parallel(
                task, shared, numbers, backend="loky", n_jobs=min(workers, len(numbers)), inner_max_num_threads=1,
                initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN),  # on Ctrl-C the parent ends them
            )  # fmt: skip


@contextmanager
def _own_libraries_first() -> Iterator[None]:
    """Within this context, let new processes load the libraries of this Python before those of the system.

    When Python runs within R, the system's libraries come first, and may include a libpython of another version.
    """
    others, own = os.environ.get("LD_LIBRARY_PATH"), sysconfig.get_config_var("LIBDIR")
    if others is None or own is None or own.startswith("/usr/lib"):  # the system searches /usr/lib last in any case
        yield
        return
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join([own, others])
    try:
        yield
    finally:
        os.environ["LD_LIBRARY_PATH"] = others


def _parallel(task: Callable[[S, int], R], shared: S, numbers: Sequence[int], **backend: Any) -> Iterator[R]:
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(**backend):
        parallel = Parallel(return_as="generator_unordered", batch_size=1, max_nbytes=None)  # no data in shared files
    results = parallel(delayed(_one_thread)(task, shared, number) for number in numbers)
    try:
        for result in results:  # noqa: UP028  # "yield from" would close results, with a warning about abandoned tasks
            yield result
    except BaseException:  # including Ctrl-C: running tasks are abandoned
        with suppress(KeyboardInterrupt):
            results.throw(KeyboardInterrupt)
        raise


def _one_thread(task: Callable[[S, int], R], shared: S, number: int) -> R:
    import numba

    numba.set_num_threads(1)
    return task(shared, number)


def client_of(scheduler: str) -> Any:
    """Connect to a Dask cluster, and return a client that the caller must close.  Raise InputError on failure."""
    try:
        from dask import distributed
    except ImportError:
        raise InputError("a scheduler needs Dask: pip install 'surveysynth[cluster]'") from None
    try:
        return distributed.Client(scheduler, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"no Dask scheduler answers at {scheduler!r} ({type(error).__name__})") from None
