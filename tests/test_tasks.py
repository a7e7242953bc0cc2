"""Tasks in processes of this machine."""

import os
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest

import surveysynth as ss
from surveysynth.tasks import run
from tests.conftest import without_r

# R, loaded into Python, sets the path of libraries like this.
PROGRAM = """
import os
import sys

os.environ["LD_LIBRARY_PATH"] = libraries = "/usr/lib/R/lib:/usr/lib/x86_64-linux-gnu"

from surveysynth.tasks import run

def task(shared, number):
    import ssl, sys
    return number * shared, sys.version

if __name__ == "__main__":
    assert sorted(run(task, 2, range(3), workers=2)) == [(0, sys.version), (2, sys.version), (4, sys.version)]
    assert os.environ["LD_LIBRARY_PATH"] == libraries
"""


def test_processes_load_the_libraries_of_this_python_beside_r():
    subprocess.run([sys.executable, "-c", PROGRAM], env=without_r(), check=True)


def slow_square(shared, number):
    time.sleep(0.05 if number < 2 else 30)
    return number**2, os.environ["OMP_NUM_THREADS"], os.getpid()


@pytest.mark.slow
def test_worker_processes_have_one_thread_and_are_gone_when_the_work_is_given_up():
    before = os.environ.get("OMP_NUM_THREADS")
    work = run(slow_square, None, [0, 1, 2, 3], workers=2)
    first, second = next(work), next(work)
    assert {first[0], second[0]} == {0, 1} and first[1] == "1" and os.getpid() not in (first[2], second[2])
    with pytest.raises(KeyboardInterrupt):
        work.throw(KeyboardInterrupt)
    assert no_children_are_left() and os.environ.get("OMP_NUM_THREADS") == before


def no_children_are_left():
    deadline = time.monotonic() + 10  # the tasks that were given up sleep for 30
    while active_children() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not active_children()


@pytest.mark.slow
def test_worker_processes_end_without_a_warning_where_a_result_cannot_be_kept(recwarn):
    with pytest.raises(OSError, match="disk full"):
        for _ in run(slow_square, None, [0, 1, 2, 3], workers=2):
            raise OSError("disk full")
    assert no_children_are_left() and not recwarn.list


def fails_at_two(shared, number):
    if number == 2:
        raise ss.ModelError("no mode")
    return number


@pytest.mark.slow
def test_an_error_of_a_task_is_raised_here():
    with pytest.raises(ss.ModelError, match="no mode"):
        list(run(fails_at_two, None, [0, 1, 2, 3], workers=2))
