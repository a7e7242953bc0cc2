# %% [markdown]
# # Attacks
#
# A game plants a record, makes releases of two files that differ in it alone, and lets an attacker tell them apart.
# What he gets right and wrong makes a lower limit of epsilon at 95% (Clopper and Pearson): a limit above the stated
# epsilon would be a hole. **An attack that fails is no proof**; [what was attacked, how, and what it cannot
# show](../docs/measured.md#audit-it-yourself).
#
# ```sh
# surveysynth study audit --out folder --mechanisms strict-history --planted x10,x100,heavy \
#     --epsilon 1,3 --pairs 2000 --seed 20261124 --workers 1
# ```
#
# The other commands are in [the README of the games](../benchmarks/audit/README.md). Files that were edited,
# processes that were killed and frames that were made up are on [a page of their own](../docs/robustness.md).

# %% tags=["hide-input"]
import pandas as pd
from great_tables import GT, loc, style

games = pd.read_csv("benchmarks/audit/audit.csv")
games["holds"] = games["lower"] <= games["stated"]
shown = ["mechanism", "planted", "n", "epsilon", "relation", "pairs", "stated", "empirical", "lower", "most", "agreed"]
(
    GT(games[[*shown, "holds"]], groupname_col="mechanism")
    .cols_hide("holds")
    .cols_label(
        n="records", relation="the record is", stated="epsilon stated", empirical="found", lower="lower limit",
        most="most that so many games can show", agreed="chains agreed",
    )
    .fmt_number(["empirical", "lower", "most", "agreed"], decimals=2)
    .fmt_integer("pairs")
    .tab_style(style.fill("#f6c7c3"), loc.body(rows=lambda frame: ~frame["holds"]))
    .tab_source_note("Red: a lower limit above the stated epsilon.")
    .tab_options(table_font_size="14px", table_width="100%")
)  # fmt: skip

# %% [markdown]
# So many lower limits are above what was stated, of so many:

# %% tags=["hide-input"]
print(f"{(~games['holds']).sum()} of {len(games)}")
