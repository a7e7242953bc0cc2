"""Many independent tasks: in this process, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

from ..errors import InputError

S = TypeVar("S")
R = TypeVar("R")

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_task: Callable[[int], Any]  # of a worker process


def run(
    task: Callable[[S, int], R],
    shared: S,
    numbers: Sequence[int],
    *,
    workers: int = 1,
    scheduler: str | None = None,
) -> Iterator[R]:
    """Yield ``task(shared, number)`` for every number, in the order in which they are done.

    Parameters
    ----------
    task : function
        Defined in a module, so that other processes can find it.
    shared : object
        What all tasks need; it is sent to a worker once.
    numbers : list of int
    workers : int
        Processes on this machine, one thread each; with 1 the work is done in this process.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers are used instead.

    Raises
    ------
    InputError
        Dask is not installed, or no scheduler answers.
    """
    if scheduler is not None:
        yield from _on_cluster(task, shared, numbers, scheduler)
    elif workers == 1 or len(numbers) < 2:
        for number in numbers:
            yield task(shared, number)
    else:
        yield from _in_processes(task, shared, numbers, min(workers, len(numbers)))


def _in_processes(task: Callable[[S, int], R], shared: S, numbers: Sequence[int], workers: int) -> Iterator[R]:
    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit threads that are not there
    with _environment(ONE_THREAD):  # which numerical libraries read when a child imports them
        pool = ProcessPoolExecutor(workers, spawn, _start, (task, shared))
        try:
            futures: list[Future[R]] = [pool.submit(_perform, number) for number in numbers]
            for future in as_completed(futures):
                yield future.result()
            pool.shutdown()
        except BaseException:  # Ctrl-C, too: what is under way is given up
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the children that are started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(task: Callable[[S, int], Any], shared: S) -> None:
    global _task
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the parent acts on it

    def on_shared(number: int) -> Any:
        return _one_thread(task, shared, number)

    _task = on_shared


def _perform(number: int) -> Any:
    return _task(number)


def _one_thread(task: Callable[[S, int], R], shared: S, number: int) -> R:
    import numba

    numba.set_num_threads(1)
    return task(shared, number)


def _on_cluster(task: Callable[[S, int], R], shared: S, numbers: Sequence[int], scheduler: str) -> Iterator[R]:
    try:
        from dask import distributed
    except ImportError:
        raise InputError("a scheduler needs Dask: pip install 'surveysynth[cluster]'") from None
    try:
        client = distributed.Client(scheduler, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"no Dask scheduler answers at {scheduler!r} ({type(error).__name__})") from None
    with client:
        sent = client.scatter(shared, broadcast=True, hash=False)
        futures = [client.submit(_one_thread, task, sent, number, pure=False) for number in numbers]
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                yield future.result()
        finally:
            client.cancel(futures)
