# %% [markdown]
# # FBS or FBP, how many files, which epsilon
#
# Three choices before a release, on one page. The examples are the simulated survey of `tabular_study.py`, whose truth
# is known: 1,000 doctorate holders, nine coefficients an outcome, and the flat prior, whose draws are exact and quick.
# They have a seed, so that the page stays the same; a release for publication has none. "Of 40", "of 100" and
# "of 400" mark larger studies, made with `surveysynth study tabular --seed 2024 --delta 1.8 --m 3`, that number of
# `--replicates`, and what else is named.

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from great_tables import GT

import surveysynth as ss
from surveysynth import studies as evaluate
from surveysynth.datasets.sdr import sdr_population
from surveysynth.studies import repeated_sampling, sdr

SEED, BY = 2024, ["field", "gender"]
MODELS = {"FBS": ss.FBS, "FBP": ss.FBP}
population = sdr()

# %% [markdown]
# ## Which epsilon
#
# epsilon = 2 Delta m, where Delta is the largest weighted log density, in absolute value, of any record under any draw.
# Each of the m files costs 2 Delta. To get Delta down, the tuning takes weight (alpha) from the records.
# `privacy_cost` says how much of the file is left, and releases nothing:

# %%
rows = []
for delta in (5.4, 2.7, 1.8, 1.08, 0.9, 0.6):
    row = {"Delta": f"{delta:g}", "epsilon, m = 1 / 3 / 5": f"{2 * delta:g} / {6 * delta:g} / {10 * delta:g}"}
    for n in (1000, 200):
        design = population.sample(population.frame, n, SEED)
        for name, model in MODELS.items():
            try:
                synthesizer = model("salary", "field + gender", prior="flat")
                left = ss.privacy_cost(design, synthesizer, epsilon=2 * delta, m=1, seed=SEED).mean_alpha
            except (ss.ModelError, ss.PrivacyError):
                left = np.nan
            row[f"{name}, n = {n:,}"] = left
    rows.append(row)
left = pd.DataFrame(rows)
shares = list(left)[2:]
(
    GT(left, rowname_col="Delta").tab_stubhead("Delta")
    .tab_header("Mean alpha", "the share of the file that is left")
    .fmt_number(shares, decimals=2).sub_missing(shares, missing_text="refused")
)  # fmt: skip

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
for share, marker in zip(shares, "osv^", strict=True):
    axes.plot(left["Delta"].astype(float), left[share], marker=marker, label=share)
axes.set(
    xscale="log", ylim=(0, 1.05), xlabel="Delta (epsilon = 2 Delta for each file)", ylabel="mean alpha",
    title="The cliff: below it the privacy weights leave little of the file",
)  # fmt: skip
axes.set_xticks(left["Delta"].astype(float), left["Delta"], minor=False)
axes.minorticks_off()
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# There is a cliff near Delta = 1, with 10,000 records too. Narrowed by the weights, the density in the middle of the
# distribution rises; records there, which were no risk at first and kept all their weight, now set the bound. Few
# records for a coefficient (small strata, many predictors) bring the cliff nearer: with 200 records one field has five
# of them, and of 40 such samples FBS was refused for 36 at Delta = 1.8 (`--n 200`). So stay where mean alpha is 0.7 or
# more. These models do not reach an epsilon of 1. And `privacy_cost` looks at the confidential file: keep its numbers
# inside, and settle epsilon before you look at any result.
#
# ## Which m
#
# The spread between the files tells a user how uncertain the model is. With one file there is no spread, its standard
# errors leave that part out, and the table's flag says so. Here are five samples at Delta = 1.8, with `debias=True`:
# means over 27 domains of the coverage of 95% intervals, and of length and RMSE over those of the confidential sample.

# %%
study = repeated_sampling(population, replicates=5, m=[1, 3, 5], delta=[1.8], methods=["fbs", "fbp"], seed=SEED)
summary = evaluate.summarize(study.estimates, BY)
own = summary[summary["method"] == "confidential"].set_index([*BY, "statistic"])["ci_length"].rename("own_length")
shown = summary[summary["setting"] == "debias"].join(own, on=[*BY, "statistic"]).astype({"m": int})
shown["length"] = shown["ci_length"] / shown["own_length"]
shown["RMSE"] = shown["rmse_ratio"]
table = shown.groupby(["statistic", "method", "m", "epsilon"])[["coverage", "length", "RMSE"]].mean()
(
    GT(table.reset_index().assign(method=lambda t: t["method"].str.upper()), groupname_col="statistic",
       rowname_col="method")
    .tab_header("Intervals over 27 domains", "means; length and RMSE over those of the confidential sample")
    .fmt_number(["epsilon"], decimals=1).fmt_number(["coverage", "length", "RMSE"], decimals=2)
)  # fmt: skip

# %% [markdown]
# With the same epsilon of 10.8 for all m, of 40 (`--methods fbs,fbp --delta 1.08,1.8,2.7,5.4 -m 1,2,3,5`, FBS with
# debias) intervals of means cover 0.79, 0.95, 0.95 and 0.97 for m = 1, 2, 3, 5, and are 25,800, 52,900, 35,600 and
# 31,500 long. **Take m = 3.** Two files say little about a spread, so their intervals are long. Five are a little
# better as long as Delta stays off the cliff; here, at 1.08, one of 40 was refused. One file is for looking at.
#
# ## FBS or FBP
#
# Their counts are equally good by now (RMSE 0.90 and 0.89 of the sample's, of 400). **Take FBS** unless you have a
# reason for FBP. FBS only asks that log outcome and log weight are jointly normal given the predictors, so weights may
# be calibrated or adjusted for nonresponse; it keeps more of the file at the same Delta; it takes numeric predictors
# as they are. But its files are samples: whoever uses them must use the weights.
#
# **Take FBP** where the design is informative and the weights are really 1 / pi (a calibrated weight is not quite that,
# and the correction is off by as much), and where
#
# - users will forget the weights: within a cell of the predictors, FBP's records represent the population as they are;
# - cells are small, and their means matter: without debias their RMSE is 0.96 of the sample's, FBS's 1.08 (of 400).
#
# Both take several outcomes, FBP only with `prior="flat"`. FBP weights its files by cells, so a numeric predictor
# needs public `bands`. Where weights are a function of public columns, both keep them, and there is nothing to choose.
#
# ## To debias or not
#
# Privacy weights narrow the fitted distribution, and means are off: in this informative sample about 2% up for FBS and
# 2% down for FBP (of 400). `debias=True` undoes that, *if the outcome is normal on the scale of the model*. If it is
# not, FBS has two errors that may cancel, and debias takes one of them away. Below, log salary has skewness 1. The
# remedy is another scale: `NormalScores`, made from last year's or a public file, never from this one.

# %%
skewed = sdr("skewed")
last_year = replace(skewed, frame=sdr_population(seed=SEED - 1, errors="skewed"))
history = last_year.sample(last_year.frame, 5000, SEED)
scores = ss.NormalScores.from_historical(
    history.frame["salary"], weights=history.weights, source="the survey of last year"
)
truth = skewed.frame["salary"].mean()
errors = []
for seed in range(SEED, SEED + 3):
    design = skewed.sample(skewed.frame, 1000, seed)
    for name, model in MODELS.items():
        for scale, transform in {"log": "log", "normal scores": scores}.items():
            synthesizer = model("salary", "field + gender", prior="flat", transform=transform)
            done = ss.fit(
                design, synthesizer, epsilon=10.8, m=3, population_total=skewed.N, seed=seed,
                mechanism=ss.PseudoPosterior(),
            )  # fmt: skip
            for debias in (False, True):  # to compare; two releases of one fit would spend twice
                mean = done.release(debias=debias).tables(statistic="mean")["estimate"].iloc[0]
                setting = "debias" if debias else "as fitted"
                errors.append({"model": name, "scale": scale, "setting": setting, "error": 100 * (mean / truth - 1)})
table = pd.DataFrame(errors).pivot_table("error", "model", ["scale", "setting"], sort=False)
flat = table.set_axis([f"{scale}, {setting}" for scale, setting in table], axis=1)
chart = GT(flat.reset_index(), rowname_col="model").fmt_number(decimals=1, force_sign=True)
for scale in ("log", "normal scores"):
    own = [name for name in flat if name.startswith(scale)]
    chart = chart.tab_spanner(scale, own).cols_label({name: name.partition(", ")[2] for name in own})
chart.tab_header("Error of the mean of all, in percent", "means of three samples")

# %% [markdown]
# Of 100 (`--methods fbs,fbp --population skewed`) the intervals of means on the log scale cover, as fitted and with
# debias, 0.92 and 0.84 (FBS), 0.68 and 0.85 (FBP); with `t4` errors 0.93 and 0.92, 0.79 and 0.92; `heteroskedastic`
# 0.79 and 0.87, 0.89 and 0.93. So: with FBP debias. With FBS debias where the scale fits, or else leave it. Look at
# the residuals first, inside.
#
# ## Stratum totals
#
# If the agency prints them anyway, give `population_total={"1": 27_963, ...}`. It spends nothing; counts of strata
# are then exact, and cells inside them gain. It does nothing for the bias of means.
#
# ## What no choice fixes
#
# The guarantee is asymptotic: a bound found on this file and these draws. PSUs, and strata that are not predictors, are
# modelled as normal effects whose spread is the same everywhere, by FBS and by FBP with `prior="flat"`; what that does
# for standard errors, and what not, is in `clustered_surveys.py`. `clusters="ignore"` leaves the effects out, and then
# standard errors are too small. Domains that are not made of predictors are not in the files.
