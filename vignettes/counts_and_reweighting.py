# %% [markdown]
# # Counts, and re-weighting
#
# How often people see a doctor is a count: many zeros, a few very large numbers. This page synthesizes such a file, and
# shows what re-weighting does: a step after the privacy weights that raises those which are lower than epsilon asks
# for. The method is that of Hu, Savitsky & Williams (2020, *Maximizing Utility for Vector-Weighted Pseudo Posterior
# Mechanisms under Differential Privacy*; "the paper" below). In the order of the page:
#
# 1. a model for counts: Poisson or negative binomial;
# 2. two ways to find risky records, the paper's LW and CW, and what is "inefficient" about their weights;
# 3. re-weighting, one step and more;
# 4. all of them at one epsilon;
# 5. a release, and what the guarantee leans on;
# 6. unequal survey weights that depend on the count.
#
# The file is public: 20,190 person-years of the RAND health insurance experiment, which comes with statsmodels. Here
# they are the population, and a simple random sample of 1,500 is the survey. Epsilon protects one person-year; in a
# file that knew its persons, `unit=` would protect all years of one. The runs have a seed, so that the page stays the
# same. A release for publication has none.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from great_tables import GT
from IPython.display import display
from statsmodels.datasets import randhie

import surveysynth as ss

SEED = 2024
TIGHT, WIDE, M = 18, 36, 3  # epsilon: Delta may be 3, or 6
MANY = 20  # synthetic files to look at
RELEASED = ["plan", "estimate", "se"]
SHORT = {"chains": 2, "warmup": 250, "draws": 400, "tolerance": 0.03, "seed": SEED}  # will do to compare
LONGER = {"chains": 3, "warmup": 400, "draws": 800, "seed": SEED}  # to release, one file from each chain


def show(table, title, subtitle=None, digits=2):
    """A table as an editor would print it: numbers rounded."""
    table = table.rename(columns={"": "of"})
    whole, real = ([c for c in table if table[c].dtype.kind == kind] for kind in "if")
    shown = GT(table).tab_header(title, subtitle).fmt_integer(whole).fmt_number(real, decimals=digits)
    shown = shown.sub_missing(missing_text="")
    display(shown.cols_label(of="") if "of" in table else shown)


def report(release, *words):
    """Print the lines of a privacy report that hold one of these words."""
    print(*(line.strip() for line in str(release.privacy).splitlines() if any(w in line for w in words)), sep="\n")


file = randhie.load_pandas().data
population = pd.DataFrame({
    "plan": np.select([file["idp"] == 1, file["lncoins"] == 0], ["deductible", "free"], "shared"),
    "health": np.select([file["hlthg"] == 1, file["hlthf"] + file["hlthp"] > 0], ["good", "fair or poor"], "excellent"),
    "visits": file["mdvis"],
})  # fmt: skip
N, n = len(population), 1_500


def survey(n):
    """A simple random sample; every record stands for N / n."""
    return ss.SurveyDesign(population.sample(n, random_state=SEED).assign(weight=N / n), weights="weight")


design = survey(n)
visits = design.frame["visits"]
print(f"{N:,} person-years, a sample of {n:,}: mean {visits.mean():.2f}, variance {visits.var():.1f}, "
      f"{(visits == 0).mean():.1%} without a visit, at most {visits.max()}")  # fmt: skip

# %% [markdown]
# ## 1. Poisson or negative binomial
#
# Both are regressions of the count on a log scale. Under Poisson the variance is the mean mu, under the negative
# binomial it is mu + mu^2 / phi. Here are fits without privacy weights (a huge c1), and the same statistics of their
# synthetic files. The columns are means over 20 files. These files, as all on this page, stay inside.

# %%
PREDICTORS = "plan + health"
STATISTICS = {
    "zeros": lambda y: (y == 0).mean(),
    "q15": lambda y: np.quantile(y, 0.15),
    "q50": lambda y: np.quantile(y, 0.50),
    "q90": lambda y: np.quantile(y, 0.90),
    "mean": np.mean,
}


def files(fit, **how):
    """The counts of many synthetic files of one fit: to compare, for they would all spend."""
    # what chains as short as these may fail, and privacy weights that keep little; no release would accept it
    short = ["rhat", "ess_bulk", "ess_tail", "information"]
    made = fit.release(m=MANY, epsilon=1e6, accept_diagnostics=short, **how).datasets
    return [synthetic.numeric("visits") for synthetic in made]


def statistics(counts):
    """Statistics of files, averaged over them."""
    return {name: np.mean([statistic(y) for y in counts]) for name, statistic in STATISTICS.items()}


of_file = statistics([visits])
rows = [{"": "the file"} | of_file | {"variance": visits.var()}]
for model in (ss.PoissonRegression("visits", PREDICTORS), ss.NegativeBinomialRegression("visits", PREDICTORS)):
    fit = ss.fit(design, model, mechanism=ss.PseudoPosterior(c1=1e6), m=M, **SHORT)
    counts = files(fit)
    found = {"variance": np.mean([y.var() for y in counts]), "Delta": fit.delta, "epsilon": 2 * M * fit.delta}
    rows.append({"": model.name} | statistics(counts) | found)
show(pd.DataFrame(rows), "Visits in the file, and in synthetic ones")

# %% [markdown]
# Take the negative binomial. Poisson has the mean right and nothing else: a fifth of the people without a visit, a
# seventh of the variance. The negative binomial lacks a third of it, for the longest tail, and is close elsewhere. It
# is a matter of privacy, too. A model under which 70 visits are next to impossible has log densities of -160 there,
# and all of that has to be weighted away. Poisson is for counts whose variance is near their mean, given the
# predictors.
#
# ## 2. Risky records, and weights that are lower than they need be
#
# The guarantee is about the Lipschitz bound: Delta, the largest of alpha_i M_i, where M_i is the largest |log density|
# of record i in any draw and alpha_i its privacy weight. The paper measures risk in two ways and turns it into weights
# by a straight line, alpha = c1 (1 - risk), c1 = 1:
#
# - LW: the risk is the Lipschitz bound of the unweighted fit, scaled to [0, 1] within the file;
# - CW: the risk is the share of records that are further away than 20% of the count. It takes no model.

# %%
nb = ss.NegativeBinomialRegression("visits", PREDICTORS)
RISKS = {"LW": ss.LipschitzRisk(), "CW": ss.CountRisk(radius=0.2)}
first = {
    name: ss.fit(design, nb, mechanism=ss.PseudoPosterior(map="linear", risk=risk, c1=1), m=M, **SHORT)
    for name, risk in RISKS.items()
}
once = {name: fit.reweighted(tolerance=0.03) for name, fit in first.items()}

figure, axes = plt.subplots(2, 2, figsize=(8.5, 6), layout="constrained", sharex=True, sharey="row")
for row, name in zip(axes, RISKS, strict=True):
    for ax, fit, step in zip(row, (first[name], once[name]), ("", ", one step of re-weighting"), strict=True):
        ax.scatter(fit.weighted.alpha, fit.weighted.bounds, s=12, color="#0b6fa4", alpha=0.4, lw=0)
        ax.axhline(fit.delta, color="#c26a00", lw=1.2, ls="--")
        ax.set_title(f"{name}{step}", loc="left", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    row[0].set_ylabel("bound of the record")
    row[0].set_ylim(bottom=0)
for ax in axes[1]:
    ax.set_xlabel("privacy weight alpha")

# %% [markdown]
# A dot is a record, the dashed line is Delta. Only the records at the line set epsilon. A dot below it with alpha < 1
# could have more weight, and epsilon would be the same: such weights the paper calls inefficient. On the left that is
# nearly everybody. Under CW it is bad: even zeros, the most frequent count, have weight 0.3, their share of the file.
#
# ## 3. Re-weighting
#
# One step gives record i the weight min(1, k Delta / M_i): as much as its bound allows. k, near 1, is found so that the
# new fit, which has other draws, does not exceed the old Delta. `reweighted(10)` goes on until a step gains nothing, 10
# steps at most. On the right of the figure, the dots with alpha < 1 have moved up towards the line. Below, each of the
# two has three lines: before, after one step, and until nothing is gained.


# %%
def row_of(name, fit, **how):
    """What the weights of a fit are like, and its synthetic files."""
    w = fit.weighted
    of_weights = {"Delta": w.delta, "mean alpha": w.alpha.mean(), "alpha < 1": w.weighted_down, "flatness": w.flatness}
    return {"": name, "steps": str(w.steps)} | of_weights | statistics(files(fit, **how))


def compare(rows):
    """Such rows, and the file's own below them."""
    show(pd.DataFrame([*rows, {"": "the file", "steps": ""} | of_file]), "Privacy weights, and what the files are like")


flat = {name: fit.reweighted(9, tolerance=0.03) for name, fit in once.items()}
compare([row_of(name, stage[name]) for name in RISKS for stage in (first, once, flat)])

# %% [markdown]
# "alpha < 1" is a share of the records. Flatness is the least bound of these, as a share of Delta; 1 is a flat line.
#
# LW, one step: the Delta is the same, hardly anybody is weighted down any more, and the files come nearer. This is
# the paper's finding. More steps add next to nothing. Under CW the weights rise, but so low a Delta leaves no file
# worth having, before or after. Look at the two Deltas: with c1 = 1 these are different epsilons, and neither was asked
# for.
#
# ## 4. At one epsilon
#
# So ask for one. Here c1 is tuned, once to epsilon 18 for three files (Delta 3), once to 36 (Delta 6, as in the paper's
# appendix D). There are three kinds of weights: LW, CW, and the package's default, the inverse map, alpha = min(1, c1
# Delta / f), where f is the unweighted bound. Each before and after one step. The last
# line is the default once more, its draws corrected for what its weights did (`debias=True`).

# %%
mechanisms = {name: ss.PseudoPosterior(map="linear", risk=risk) for name, risk in RISKS.items()}
mechanisms["default"] = ss.PseudoPosterior()
for epsilon in (TIGHT, WIDE):
    rows = []
    for name, mechanism in mechanisms.items():
        before = ss.fit(design, nb, epsilon=epsilon, m=M, mechanism=mechanism, **SHORT)
        rows += [row_of(name, fit) for fit in (before, before.reweighted(tolerance=0.03))]
    rows.append(row_of("debias", before, debias=True))
    print(f"epsilon {epsilon}")
    compare(rows)

# %% [markdown]
# Five things to see; the last two are not in the paper:
#
# - **After the step it hardly matters what came before.** One step turns any weights into those of the inverse map,
# with   M_i of the weighted fit for f_i of the unweighted one. So the second line is nearly the same for all three.
# - **It rescues CW,** which by itself is the worst of the three.
# - **The default is there already, if epsilon is not too small.** At 36 a step gains next to nothing. At 18 the weights
#   move the fit so far that f_i no longer is the bound, and a step is worth its few seconds: `reweight=True`.
# - **More weight is not less error.** At 18, LW leaves a third of the file and has the best means. The step more than
#   doubles that, and the mean falls. LW takes from everybody: that costs precision, of which 1,500 records have plenty
#   for six parameters. The inverse map takes from rare, large counts alone: that is bias, and no sample size removes
# it.   Six samples of 1,500 say the same. On average their means are off, before and after the step, by -14% and -27%
# (LW),   -45% and -25% (CW), -33% and -25% (default); at 36 by -9% and -7%, -13% and -5%, -6% and -5%.
# - **The bias can be corrected,** and most of it is: `debias=True` asks which model would give this fit under these
#   weights. It has to know the weights as a function of a record's risk and of constants. That is so for the default
#   alone; not for the linear map, nor for CW, nor after a step.
#
# Why then is LW not the default? It weights down every record, at any n, which the theory does not allow (section 5).
# And its scale runs up to the riskiest record of the file, so that one more record can move the weights of all
# (`censored_releases.py`, section 3). A mean that is a quarter too low is a reason to take the default with
# `debias=True`, or to ask for more epsilon. Compare the synthetic files with the file inside, as above, before you
# decide: the correction believes in the negative binomial, and these visits have a longer tail.
#
# ## 5. A release
#
# The default with one step, and what its report says of the weights and of the guarantee.

# %%
release = ss.synthesize(
    design, nb, epsilon=WIDE, m=M, reweight=True, population_total=N, mechanism=ss.PseudoPosterior(), **LONGER
)
report(release, "Privacy of", "Asymptotic", "public predictors", "privacy weights (map", "weights again")

# %% [markdown]
# A step computes weights from the file once more, and epsilon does not cover what they tell of it: re-weighting is at
# the same epsilon, and one more thing that depends on the file. Means by plan, of the sample and released:

# %%
own = ss.estimate(design, "visits", by="plan", statistic="mean")[["plan", "n", "estimate", "se"]]
show(
    own.merge(release.tables(by="plan", statistic="mean")[RELEASED], on="plan", suffixes=("", " released")),
    "Mean visits by plan", "of the sample, and released",
)  # fmt: skip

# %% [markdown]
# The theory behind "asymptotic" wants the share of records with alpha < 1 to vanish as n grows. Does it? The same
# epsilon, the same model, more and more records:

# %%
rows = []
for size in (500, 2_000, 8_000):
    cost = ss.privacy_cost(survey(size), nb, epsilon=TIGHT, m=M, reweight=True, **SHORT)
    rows.append({"n": f"{size:,}", "mean alpha": cost.mean_alpha, "alpha < 1": cost.weighted_down})
show(pd.DataFrame(rows), "Privacy weights by size of the sample", f"epsilon {TIGHT}, re-weighted")
print(f"5 visits or more: {(population['visits'] >= 5).mean():.1%} of the population")

# %% [markdown]
# It does not. In the end it is the share of people whose count has a probability below exp(-Delta), here those with 5
# visits and more, in some cells of the predictors with 4. That is a fact about the population, and n does not enter.
# Re-weighting makes the share smaller, in which the paper rightly sees a better case for the guarantee. But only an
# epsilon that grows with n would make it vanish. Read "asymptotic" with that in mind, and see `docs/limitations.md`.
#
# ## 6. When the survey weight depends on the count
#
# So far all weights were N / n: public, and kept. Now the agency draws people with probability proportional to a size
# that goes with their visits, say last year's claims, which are made up here. Then the weight reveals something about
# the count, and must be synthesized with it. The model finds that it is no function of the predictors, and adds a
# regression of the log weight on the predictors and log(1 + count).

# %%
claims = (1 + population["visits"]) * np.random.default_rng(SEED).lognormal(0, 0.5, N)
unequal = ss.SurveyDesign.from_frame(
    population.assign(claims=claims), n=n, size="claims", method="systematic", seed=SEED
)
twice = LONGER | {"warmup": 800, "draws": 1_600}  # its tails mix more slowly
joint = ss.synthesize(
    unequal, nb, epsilon=WIDE, m=M, reweight=True, population_total=N, mechanism=ss.PseudoPosterior(), **twice
)
report(joint, "Privacy of", "log of the survey weight", "mean of the survey weights")

sums = population.groupby("plan")["visits"].sum()
own = ss.estimate(unequal, "visits", by="plan", statistic="total")[["plan", "estimate", "se"]]
own.insert(1, "truth", own["plan"].map({**sums, "all": sums.sum()}))
show(
    own.merge(joint.tables(by="plan", statistic="total")[RELEASED], on="plan", suffixes=("", " released")),
    "Visits by plan", "truth, sample and release", digits=0,
)  # fmt: skip

# %% [markdown]
# The survey's estimates are near the truth, as its weights are right. Released totals tend to be 5 to 11% low
# here. Their standard errors know of sampling and of synthesis, and nothing of what privacy weights do to the tail.
# Without privacy weights the same model is 3% below the survey.
#
# What to take from this page: the negative binomial, unless the variance is the mean. The default weights with
# `debias=True`; CW and LW never without a step. And a look at the means inside, before and after.
