# %% [markdown]
# # Benchmarks
#
# What each program measures, in its own words, and its command. Most compare within one run and give ratios, as
# seconds of one machine say little about another. What they found stands where it is needed:
# [estimates](../docs/estimation.md#what-it-costs), [large files](../docs/large_files.md#what-it-takes), [both
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
