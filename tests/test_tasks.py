"""Tasks in processes of this machine."""

import subprocess
import sys

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
