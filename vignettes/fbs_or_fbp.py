# %% [markdown]
# # FBS or FBP, how many files, which epsilon
#
# Three choices before a release, on one page. The examples are the simulated survey of `tabular_study.py`, whose truth
# is known: 1,000 doctorate holders, nine coefficients an outcome, and the flat prior, whose draws are exact and quick.
# They have a seed, so that the page stays the same; a release for publication has none. "Of 40", "of 100" and
# "of 400" mark larger studies, made with `python -m replication.tabular --seed 2024 --delta 1.8 --m 3`, that number of
# `--replicates`, and what else is named.

# %%
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from great_tables import GT

import surveysynth as ss
from replication.tabular.study import repeated_sampling, sdr
from surveysynth.datasets.sdr import sdr_population
from surveysynth.studies import summarize

SEED, BY = 2024, ["field", "gender"]
MODELS = {"FBS": ss.FBS, "FBP": ss.FBP}
COLORS = {"FBS": "#0b6fa4", "FBP": "#c26a00"}
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
    row = {"Delta": f"{delta:g}", "epsilon": f"{2 * delta:g} / {6 * delta:g} / {10 * delta:g}"}
    for n in (1000, 200):
        design = population.sample(population.frame, n, SEED)
        for name, model in MODELS.items():
            try:
                synthesizer = model("salary", "field + gender", prior="flat")
                left = ss.privacy_cost(design, synthesizer, epsilon=2 * delta, m=1, seed=SEED).mean_alpha
            except (ss.ModelError, ss.PrivacyError):
                left = np.nan
            row[f"n = {n:,}|{name}"] = left
    rows.append(row)
left = pd.DataFrame(rows)
shares = list(left)[2:]
(
    GT(left, rowname_col="Delta")
    .tab_header("What each Delta leaves of the file", "mean alpha of n records; 1 is all of it")
    .tab_stubhead("Delta").tab_spanner_delim("|", shares).cols_label(epsilon="epsilon, m = 1 / 3 / 5")
    .fmt_number(shares, decimals=2).sub_missing(shares, missing_text="refused")
)  # fmt: skip

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
axes.axhline(0.7, color="#7f7f7f", lw=1)
for share, look in zip(shares, ["o-", "s-", "o--", "s--"], strict=True):
    n, _, name = share.partition("|")
    axes.plot(left["Delta"].astype(float), left[share], look, color=COLORS[name], label=f"{name}, {n}")
axes.set(
    xscale="log", ylim=(0, 1.05), xlabel="Delta (each file costs an epsilon of 2 Delta)", ylabel="mean alpha",
    title="Share of the file that the privacy weights leave",
)  # fmt: skip
axes.set_xticks(left["Delta"].astype(float), left["Delta"])
axes.minorticks_off()
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# A line ends where the release is refused. The grey line is at 0.7. There is a cliff near Delta = 1, with 10,000
# records too. Narrowed by the weights, the density in the middle of the distribution rises; records there, which were
# no risk at first and kept all their weight, now set the bound. Few records for a coefficient (small strata, many
# predictors) bring the cliff nearer: with 200 records one field has five of them, and of 40 such samples FBS was
# refused for 36 at Delta = 1.8 (`--n 200`). So stay where mean alpha is 0.7 or more. These models do not reach an
# epsilon of 1. And `privacy_cost` looks at the confidential file: keep its numbers inside, and settle epsilon before
# you look at any result.
#
# ## Which m
#
# The spread between the files tells a user how uncertain the model is. With one file there is no spread, its standard
# errors leave that part out, and the table's flag says so. Here are five samples at Delta = 1.8, with `debias=True`:
# means over 27 domains of the coverage of 95% intervals, and of length and RMSE over those of the confidential sample.

# %%
study = repeated_sampling(population, replicates=5, m=[1, 3, 5], delta=[1.8], methods=["fbs", "fbp"], seed=SEED)
summary = summarize(study.estimates, BY)
own = summary[summary["method"] == "confidential"].set_index([*BY, "statistic"])["ci_length"].rename("own_length")
shown = summary[summary["setting"] == "debias"].join(own, on=[*BY, "statistic"]).astype({"m": int})
shown["length"] = shown["ci_length"] / shown["own_length"]
shown["RMSE"] = shown["rmse_ratio"]
shown["method"] = shown["method"].str.upper()
table = shown.pivot_table(["coverage", "length", "RMSE"], ["method", "m", "epsilon"], "statistic")
table.columns = [f"{statistic}s|{measure}" for measure, statistic in table]
numbers = [f"{statistic}|{measure}" for statistic in ("counts", "means") for measure in ("coverage", "length", "RMSE")]
table = table[numbers].reset_index().sort_values(["method", "m"], ascending=[False, True])
(
    GT(table, groupname_col="method", rowname_col="m").tab_stubhead("m")
    .tab_header("Intervals of m files, over 27 domains", "length and RMSE over those of the confidential sample")
    .tab_spanner_delim("|", numbers).fmt_number("epsilon", decimals=1).fmt_number(numbers, decimals=2)
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
errors, drawn = [], {}
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
                released = done.release(debias=debias)
                mean = released.tables(statistic="mean")["estimate"].iloc[0]
                setting = f"{scale}|{'debias' if debias else 'as fitted'}"
                errors.append({"model": name, "setting": setting, "error": 100 * (mean / truth - 1)})
                if name == "FBS" and not debias:
                    drawn[scale] = released.datasets  # of the last sample
table = pd.DataFrame(errors).pivot_table("error", "model", "setting", sort=False)
(
    GT(table.rename_axis(columns=None).reset_index(), rowname_col="model")
    .tab_header("Error of the mean salary of all, in percent", "means of three samples, by scale of the model")
    .tab_spanner_delim("|", list(table)).fmt_number(decimals=1, force_sign=True)
)  # fmt: skip

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
bins = np.geomspace(40_000, 640_000, 29)
axes.hist(skewed.frame["salary"], bins, weights=np.full(skewed.N, 100 / skewed.N), color="#8f8f8f", label="population")
for (scale, files), color, look in zip(drawn.items(), ["#c26a00", "#0b6fa4"], ["--", "-"], strict=True):
    salaries, weights = np.concatenate([f.frame["salary"] for f in files]), np.concatenate([f.weights for f in files])
    axes.hist(
        salaries, bins, weights=100 * weights / weights.sum(), histtype="step", linestyle=look, lw=1.4, color=color,
        label=f"three files of FBS, {scale}",
    )  # fmt: skip
axes.set(
    xscale="log", xlabel="salary, dollars", ylabel="percent of persons in a bin",
    title="Salaries under two scales of the model",
)  # fmt: skip
ticks = [40_000, 80_000, 160_000, 320_000, 640_000]
axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
axes.minorticks_off()
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# On the log scale the files have too many persons below 50,000 dollars, and of those above 320,000 less than half. On
# normal scores low salaries are rare, and more of the high ones are there.
#
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
