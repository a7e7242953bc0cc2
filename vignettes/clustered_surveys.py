# %% [markdown]
# # Surveys with clusters
#
# Persons of one PSU are alike: they live in the same county, and one team examined them. A standard error that forgets
# this is too small, and so is one that comes from synthetic files in which it was forgotten. This page shows how far
# off that is, and what effects of PSUs in the model do about it. Then come categories: as an outcome, and as a variable
# of the design that is not public. Then whom epsilon protects, a person or a household.
#
# The survey is NHANES II, 10,337 persons in 31 strata with two PSUs each; the outcome is zinc in the blood. The runs
# have a seed, so that the page stays the same. A release for publication has none.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from great_tables import GT
from IPython.display import display

import surveysynth as ss

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # samplics says on import that its author has archived it
    from samplics.datasets import load_nhanes2

SEED = 1980
EPSILON = 10.8
DOMAINS = ["race", "highbp"]


def show(table, title, subtitle=None, digits=2):
    """A table as an editor would print it: numbers rounded."""
    whole = [c for c in table if c.startswith("n")]
    real = [c for c in table if c not in whole and pd.api.types.is_float_dtype(table[c])]
    display(GT(table).tab_header(title, subtitle).fmt_integer(whole).fmt_number(real, decimals=digits))


def report(release, *words):
    """Print the lines of a privacy report that hold one of these words."""
    print(*(line.strip() for line in str(release.privacy).splitlines() if any(w in line for w in words)), sep="\n")


# %% [markdown]
# ## 1. The problem
#
# Mean zinc by race and high blood pressure, both public here. Zinc is missing for one person in nine; `missing="drop"`
# leaves these out. `clusters="ignore"` makes synthetic files in which every person is drawn independently.

# %%
file = load_nhanes2()["data"]
nhanes = ss.SurveyDesign(file, weights="finalwgt", strata="stratid", psu="psuid")
own = ss.estimate(nhanes, "zinc", by=DOMAINS, missing="drop")
model = ss.FBS("zinc", "C(race) + C(highbp)", prior="flat", missing="drop")
loose = ss.synthesize(nhanes, model, epsilon=EPSILON, m=3, clusters="ignore", seed=SEED, mechanism=ss.PseudoPosterior())


def beside(table):
    """The survey's own means and standard errors beside those of a release."""
    found = own[[*DOMAINS, "n", "estimate", "se"]].rename(columns={"estimate": "mean"})
    return found.assign(released=table["estimate"], **{"its se": table["se"], "ratio": table["se"] / own["se"]})


ignored = loose.tables(by=DOMAINS, statistic="mean")
show(beside(ignored), "Mean zinc, micrograms per 100 ml", "clusters ignored")
report(loose, "clusters ignored")

# %% [markdown]
# The means are near. The standard errors are not: for the whole (the last row) it is four tenths of the survey's. Of
# 95% intervals with that, nearly half would miss the truth. The files do have strata and PSUs, and the estimator uses
# them. But there is nothing in them to find: PSUs differ by chance alone.
#
# The larger a domain, the worse it is. 100 persons in 20 PSUs are hardly clustered.
#
# ## 2. Effects of PSUs
#
# That is why PSUs, unless you say "ignore", get normal effects in the model, on zinc and on the weight. So do strata,
# which race and blood pressure do not determine. Every synthetic file has **new** PSUs, drawn from the fitted
# distribution. Strata are all there are: they keep their effects, as uncertain as all other parameters.

# %%
fit = ss.fit(nhanes, model, epsilon=EPSILON, m=3, seed=SEED, mechanism=ss.PseudoPosterior())
release = fit.release()
modelled = release.tables(by=DOMAINS, statistic="mean")
show(beside(modelled), "Mean zinc, micrograms per 100 ml", "with effects of PSUs")

# %% [markdown]
# What should the ratio be? Let u be the variance that the estimate of one file has by that file's strata, PSUs and
# weights, and b the variance between the estimates of the files; the rule for partially synthetic files is u + b / m.
# Each file has its own parameters, as uncertain as the survey leaves them, and its own PSUs, as different as the
# survey's: so b is about 2 u, and the ratio about sqrt(1 + 2 / m), 1.29 for m = 3.
#
# One release is a lottery: a b from three files is a very rough number, and the small `df` of the table allow for it.
# Here are 15 files of the same fit, to look at in the agency. (Released, they would spend five times the epsilon.)

# %%
many = fit.release(m=15, epsilon=5 * EPSILON)
each = pd.concat([ss.estimate(synthetic, "zinc", by=DOMAINS) for synthetic in many.datasets])
files = each.assign(u=each["se"] ** 2).groupby(DOMAINS, sort=False)
u, b = files["u"].mean().to_numpy(), files["estimate"].var().to_numpy()
inside = own[[*DOMAINS, "n", "se"]].assign(**{"sqrt u": np.sqrt(u), "sqrt b": np.sqrt(b)})
for m in (3, 5, 10):
    inside[f"m = {m}"] = np.sqrt(u + b / m) / own["se"]
show(inside, "What a standard error holds, and how long it is with m files", "m = ...: over the survey's own")
print("sqrt(1 + 2 / m):", ", ".join(f"{np.sqrt(1 + 2 / m):.2f} for m = {m}" for m in (3, 5, 10)))

# %% [markdown]
# The whole and race 1 are about where they should be, or a little below: synthetic weights are smoother than those of
# the survey. (15 files know sqrt b to 19%.) Smaller domains need not be, for two reasons.
#
# - The survey's own standard error is a rough number in small domains. 79 of the 182 persons of race 3 are in one PSU,
#   and the 80 with high blood pressure agree by luck. The model does not contain such luck.
# - PSUs differ more among people of race 2 (standard deviation of log zinc 0.041) than of race 1 (0.035). The model has
#   one effect of a PSU for everybody, so the standard error of race 2 comes out too small.
#
# More files bring the ratio down, but each costs its share of epsilon. With 10.8 in all, the mean privacy weight that
# `ss.privacy_cost` finds is 0.94 for m = 3, 0.82 for m = 5 and 0.05 for m = 10. Three or five, then, as in
# `fbs_or_fbp.py`.
#
# The same as a picture, with effects and without:

# %%
figure, ax = plt.subplots(figsize=(8.5, 4.8), layout="constrained")
pressure = {0: ", not high", 1: ", high", "all": ""}
labels = [f"{'all' if r == 'all' else f'race {r}'}{pressure[h]} ({n:,})" for r, h, n in own[[*DOMAINS, "n"]].to_numpy()]
place = np.arange(len(own))[::-1]
ax.axvline(1, color="#7f7f7f", lw=1, label="the survey's own")
ax.axvline(np.sqrt(1 + 2 / 3), color="#7f7f7f", lw=1, ls="--", label="sqrt(1 + 2 / 3)")
ax.plot(ignored["se"] / own["se"], place, "s", color="#c26a00", label="clusters ignored, one release")
ax.plot(modelled["se"] / own["se"], place, "o", mfc="none", color="#0b6fa4", label="effects of PSUs, one release")
ax.plot(inside["m = 3"], place, "o", color="#0b6fa4", label="effects of PSUs, b from 15 files")
ax.set_yticks(place, labels)
ax.set_xlim(left=0)
ax.set_xlabel("standard error of mean zinc / the survey's own, m = 3")
ax.set_ylabel("race and blood pressure (persons)")
ax.grid(axis="x", alpha=0.25)
ax.spines[["top", "right"]].set_visible(False)
legend = figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)

# %% [markdown]
# ## 3. A category as an outcome
#
# Blood pressure is a diagnosis. Now it is confidential, too, and only race is public. `C(highbp)` says that it is a
# category, whatever its type, and `levels=` declares its levels, as they are published. Each race has a share of it,
# which PSUs and strata move up and down on the log odds. Zinc and the weight depend on the category. Shares with
# effects need Markov chains, so this takes longest here. The table is in percent, of persons whose zinc is known.

# %%
both = ss.FBS(["C(highbp)", "zinc"], "C(race)", prior="flat", missing="drop")
second = ss.synthesize(
    nhanes, both, levels={"highbp": [0, 1]}, epsilon=EPSILON, m=3, seed=SEED, mechanism=ss.PseudoPosterior()
)
print(second)
report(second, "highbp:", "Maximum over")

known = file.assign(known=np.where(file["zinc"].notna(), "yes", "no"))
known = ss.SurveyDesign(known, weights="finalwgt", strata="stratid", psu="psuid")


def of_known(table):
    """The rows for persons whose zinc is known: a release has no others."""
    return table[table["known"] == "yes"].reset_index(drop=True)


share = of_known(ss.estimate(known, "highbp", by=["known", "race"], statistic="proportion"))
released = second.tables(by="race", outcome="highbp", statistic="proportion")
share, released = (t[t["category"] == "1"].reset_index(drop=True) for t in (share, released))
numbers = {"share": share["estimate"], "se": share["se"], "released": released["estimate"], "its se": released["se"]}
show(
    share[["race", "n"]].assign(**{name: 100 * column for name, column in numbers.items()}),
    "Persons with high blood pressure, percent", digits=1,
)  # fmt: skip

# %% [markdown]
# The order of the large races is kept; race 3 is anybody's guess, before and after. But shares tend to come out too
# low. It is the weights, not the categories. With PSUs ignored, 20 files at epsilon 10.8 have on average 34.7% for all,
# where the survey has 37.1%. At epsilon 300, where next to nothing is weighted down, they have 36.1%. So:
#
# - 1 point is the model's: it gives log weights the same spread in both categories, and in the file it is larger among
#   those with high blood pressure;
# - 1.4 points are the price of a small epsilon: privacy weights press on the tails of the survey weight, and these are
#   not normal, so the correction, which believes in the normal distribution, cannot take it off.
#
# The standard errors do not know that. Compare such a table with your own before you publish it.
#
# ## 4. A design variable that is not public
#
# Now it is race that is confidential. It stays in the formula, because zinc depends on it, and is an outcome as well:
# this makes it synthesized. `public=` has you name what is left. Strata and PSUs are in the files, their labels
# recoded. Here are the persons of each race in the survey and in three files, and then the estimated millions.

# %%
private = ss.FBS(["C(race)", "zinc"], "C(race) + C(highbp)", prior="flat", missing="drop")
public = ["highbp", "stratid", "psuid"]
third = ss.synthesize(
    nhanes, private, levels={"race": [1, 2, 3]}, epsilon=EPSILON, m=3, clusters="ignore", public=public, seed=SEED,
    mechanism=ss.PseudoPosterior(),
)  # fmt: skip
print(third)
people = of_known(ss.estimate(known, by=["known", "race"], statistic="count"))
table = people[["race", "n"]].copy()
for k, synthetic in enumerate(third.datasets, 1):
    persons = synthetic.frame["race"].value_counts().sort_index()
    table[f"n, file {k}"] = [*persons, persons.sum()]
count = third.tables(by="race", statistic="count").reset_index(drop=True)
numbers = {"millions": people["estimate"], "se": people["se"], "released": count["estimate"], "its se": count["se"]}
show(table.assign(**{name: column / 1e6 for name, column in numbers.items()}), "Persons by race", "in millions")

# %% [markdown]
# Nobody's race is in the files, and the numbers change from file to file. Compare the first release: there the count of
# every race was the survey's own, because race was public, and epsilon did not cover it.
#
# The standard errors of these counts are too small, since `clusters="ignore"` is in this call. It is there for a
# reason: race is the most clustered variable of the survey (race 2 is 0 to 71% of a PSU), and normal effects, of one
# size for all categories, describe that badly. With them, race 2 was 8 to 15% of the persons in six files of race
# alone, where the survey has 10%: 62 new PSUs each time, and as different as that. So shares with effects are for
# variables such as blood pressure, which differ between PSUs, but not from none to nearly all.
#
# ## 5. Whom epsilon protects
#
# So far it was one person, added to the file or removed. If whole households are in a survey, a household may be what
# should be protected. `unit=` names the column. The log densities of its members add up, and all have one privacy
# weight. So it costs more. 800 households of one to four persons, made up; the mean privacy weight that is left:

# %%
rng = np.random.default_rng(SEED)
household = np.repeat(np.arange(800), rng.integers(1, 5, 800))
north = rng.integers(0, 2, 800)[household]
log_income = 7 + 0.3 * north + 0.4 * rng.normal(size=800)[household] + 0.6 * rng.normal(size=household.size)
homes = pd.DataFrame({"household": household, "north": north, "income": np.exp(log_income)})
homes = ss.SurveyDesign(homes.assign(wt=np.exp(rng.normal(4, 0.3, len(homes)))), weights="wt")
income = ss.FBS("income", "C(north)", prior="flat")
rows = []
for epsilon in (10.8, 24, 48):
    ask = {"epsilon": epsilon, "m": 3, "seed": SEED}
    left = [ss.privacy_cost(homes, income, unit=unit, **ask).mean_alpha for unit in (None, "household")]
    rows.append((f"{epsilon:g}", *left))
show(
    pd.DataFrame(rows, columns=["epsilon", "a person", "a household"]), "Mean privacy weight", "where epsilon protects"
)
fourth = ss.synthesize(homes, income, epsilon=24, m=3, unit="household", seed=SEED, mechanism=ss.PseudoPosterior())
report(fourth, "add or remove", "replace")

# %% [markdown]
# Here a household needs two to three times the epsilon of a person. Part of this is that a household of four has no
# less weight than a person who lives alone: else the fit would be one of small households, and means that go with
# their size would be off. This protects what is synthesized, income and weight. That there is a household in the north
# with so many members is public with the numbers of records. And `unit` is no cluster: these files contain nothing
# about households, and their standard errors take persons as independent.
#
# Can a PSU be protected like this? It has about 150 persons.

# %%
for epsilon in (EPSILON, 200, 1500):
    try:
        price = ss.privacy_cost(nhanes, model, epsilon=epsilon, m=3, unit="psuid", clusters="ignore", seed=SEED)
        print(f"epsilon {epsilon:g}: mean privacy weight {price.mean_alpha:.2f}, spent {price.epsilon:.0f}")
    except ss.ModelError as error:
        print(f"epsilon {epsilon:g}: {error}")

# %% [markdown]
# No. Without any privacy weights it would be an epsilon of about 1,100. That says little about a person, and nothing
# worth having about a PSU.
#
# With effects of PSUs the protection of a person has a condition. In the words of the report:

# %%
report(release, "which PSUs there are", "Delta bounds")

# %% [markdown]
# What epsilon bounds is how much a person can add to what the other persons of the same PSU say already. So it is about
# a person in a PSU that is in the survey anyhow, with others in it. What the PSU as a whole is like is not covered. Its
# own effect is not in the files, whose PSUs are new. But the size of such effects is, and so are those of strata.
#
# ## 6. What is left
#
# - **Effects are intercepts.** A PSU moves all its people by the same amount, whatever their race or age. Where PSUs
#   differ in the predictors' slopes, too, standard errors of domains come out too small: race 2, above.
# - **They are normal.** One PSU like no other, as that with 79 persons of race 3, is drawn in like the rest. What
#   strata and PSUs do to a category that is rare or very clustered is not normal, see section 4.
# - **Only first-stage units** have effects. Schools in districts, say, are alike within the district and no further.
# - **Few PSUs tell little about their spread.** Here there are 62. With ten, look at the released standard errors
#   of several fits, inside the agency, before you trust one.
# - **New PSUs are no PSUs of yours.** Whoever wants to see one county sees a made-up one, in its stratum.
# - **The intervals of a single release** are wide where b came out large. That is the rule; more files are the remedy,
#   and epsilon the price.
