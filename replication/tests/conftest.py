"""Fixtures of the package's tests; a command is that of a study."""

from functools import partial

import pytest

from replication.running import application
from surveysynth.cli import app as cli
from tests.conftest import folder, r, run

__all__ = ["folder", "r", "run"]


@pytest.fixture
def run_cli(request, run, folder):
    """Run the ``COMMAND`` of the test's module, in a folder of its own."""
    return partial(run, program=partial(cli.main, application(request.module.COMMAND)))
