"""Fixtures of the tests.  ``run_cli`` runs the command of a study."""

from functools import partial

import pytest

from replication.running import application
from surveysynth.cli import app as cli
from tests.conftest import folder, r, run

__all__ = ["folder", "r", "run"]


@pytest.fixture
def run_cli(request, run, folder):
    """A function that runs the ``COMMAND`` of the test's module in a new folder."""
    return partial(run, program=partial(cli.main, application(request.module.COMMAND)))
