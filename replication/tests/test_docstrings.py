"""Examples in docstrings print the results that are given there."""

import doctest
import importlib
import pkgutil

import numpy as np
import pandas as pd
import pytest

import replication
import surveysynth as ss

MODULES = [
    name for _, name, _ in pkgutil.walk_packages(replication.__path__, "replication.") if ".tests" not in name
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name, folder):
    module = importlib.import_module(name)
    known = vars(module) | {"ss": ss, "np": np, "pd": pd}
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder().find(module, globs=known):
        runner.run(example, out=printed.append)
    assert not printed, "".join(printed)
