# %% [markdown]
# # Attacks
#
# A game plants a record, counts two files that differ in it alone, and lets an attacker tell their noisy tables apart.
# What he gets right and wrong makes a lower limit of epsilon at 95% (Clopper and Pearson): a limit above the stated
# epsilon would be a hole. **An attack that fails is no proof**; [what was attacked, how, and what it cannot
# show](../docs/studies.md#audit).
#
# ```sh
# surveysynth study audit --out folder --planted x100,heavy,alone --epsilon 1 --pairs 2000 --workers 1 --seed 20261128
# ```
#
# The other commands are in [the README of the games](../benchmarks/audit/README.md). Files that were edited,
# processes that were killed and frames that were made up are on [a page of their own](../docs/robustness.md).

# %% tags=["hide-input"]
import pandas as pd
from great_tables import GT, loc, style

games = pd.read_csv("benchmarks/audit/noisy_tables.csv")
games["holds"] = games["lower"] <= games["stated"]
games["of"] = games["planted"] + games["epsilon"].map(", epsilon {:g}".format)
shown = ["of", "part", "relation", "pairs", "stated", "empirical", "lower", "most"]
(
    GT(games[[*shown, "holds"]], groupname_col="of")
    .cols_hide("holds")
    .cols_label(
        part="what is read", relation="the record is", stated="epsilon stated", empirical="found", lower="lower limit",
        most="most that so many games can show",
    )
    .fmt_number(["stated", "empirical", "lower", "most"], decimals=2)
    .fmt_integer("pairs")
    .tab_style(style.fill("#f6c7c3"), loc.body(rows=lambda frame: ~frame["holds"]))
    .tab_source_note("Red: a lower limit above the stated epsilon.")
    .tab_options(table_font_size="14px", table_width="100%")
)  # fmt: skip

# %% [markdown]
# So many lower limits are above what was stated, of so many:

# %% tags=["hide-input"]
print(f"{(~games['holds']).sum()} of {len(games)}")
