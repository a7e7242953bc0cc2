# %% [markdown]
# # Benchmarks
#
# What each program measures, in its own words, and its command. Most compare within one run and give ratios, as
# seconds of one machine say little about another. What they found stands where it is needed:
# [estimates](../docs/estimation.md#what-it-costs), [strict releases](../docs/strict.md#what-chains-cost), [both
# engines](../docs/robustness.md#two-engines), [the other mechanisms and models](../docs/limitations.md).

# %% tags=["hide-input"]
import ast
from pathlib import Path

import pandas as pd
from great_tables import GT

programs = []
for path in sorted(Path("benchmarks").glob("*.py")):
    words = ast.get_docstring(ast.parse(path.read_text())).split("\n\n")
    command = next(part for part in words if "python benchmarks/" in part).strip().splitlines()[0].strip()
    programs.append({"what is measured": " ".join(words[0].split()), "command": f"`{command}`"})
GT(pd.DataFrame(programs)).fmt_markdown("command").tab_options(table_font_size="14px", table_width="100%")

# %% [markdown]
# One of them here and now: what a strict release of 2,000 records is expected to cost in accuracy, from public
# numbers alone.

# %% tags=["hide-input"]
import surveysynth as ss

ratio = {epsilon: ss.expected_se(n=2_000, parameters=31, epsilon=epsilon) for epsilon in (2, 3, 5, 10)}
(
    GT(pd.DataFrame({"epsilon": ratio.keys(), "expected standard error over the confidential one": ratio.values()}))
    .fmt_number("epsilon", drop_trailing_zeros=True)
    .fmt_number("expected standard error over the confidential one", decimals=2)
    .tab_options(table_font_size="14px")
)
