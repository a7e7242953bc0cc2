# %% [markdown]
# # Parity with R
#
# Estimates, standard errors, replicates, calibration, regression and inclusion probabilities are compared with R's
# packages `survey`, `sampling` and `laeken`, which run in the test itself. What R calls each, and where we differ on
# purpose: [samples and estimates](../docs/estimation.md#what-r-calls-it).
#
# What each file of tests compares, in its own words, how many tests it has, and the command that runs it (`make test`
# runs them all).

# %% tags=["hide-input"]
import ast
from pathlib import Path

import pandas as pd
from great_tables import GT

tests = Path("tests")
files = [*tests.glob("estimation/test_*.py"), *tests.glob("sampling/test_*.py"), tests / "test_r.py"]
rows = []
for file in sorted(files):
    module = ast.parse(file.read_text())
    names = [each.name for each in ast.walk(module) if isinstance(each, ast.FunctionDef)]
    number = sum(name.startswith("test_") for name in names)
    what = " ".join(ast.get_docstring(module).split("\n\n")[0].split())
    rows.append({"what": what, "tests": number, "command": f"`pytest {file}`"})
GT(pd.DataFrame(rows)).fmt_markdown(["what", "command"]).tab_options(table_font_size="14px", table_width="100%")
