# %% [markdown]
# # Who could be recognised, and what to do about it
#
# A synthetic income close to the true one, in a group where nobody else earns as much: someone who knows the person
# would think to have found them. This page measures that for every record, and uses the measure to protect those who
# need it. The method is that of Hu, Savitsky & Williams (2022b, *Risk-Efficient Bayesian Data Synthesis for Privacy
# Protection*; "the paper" below). In the order of the page:
#
# 1. a model for skewed incomes with zeros: the mixture of regressions;
# 2. what an intruder is taken to know, and the risk of each record;
# 3. privacy weights from that risk, one record at a time and by pairs;
# 4. who got worse: "whack-a-mole";
# 5. what is left of the statistics;
# 6. a release with a rule: nobody above a limit.
#
# **None of these risks is an epsilon.** They say what one kind of intruder could do with these files. Epsilon is about
# any intruder, and is reported beside them, of the asymptotic kind as everywhere.
#
# The file is artificial: the package makes 600 households from written rules. The runs have a seed, so that the page
# stays the same. A release for publication has none.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from great_tables import GT

import surveysynth as ss

SEED = 2024
MANY = 10  # synthetic files behind a risk; the paper has 20
KNOWN = ["age_group", "urban", "marital"]
SHORT = {"m": MANY, "chains": 2, "warmup": 80, "draws": 120, "seed": SEED}  # will do to compare
LOOKS = {"data": ("#7f7f7f", "-"), "top-coded": ("#c26a00", "--"), "synthesizer": ("#0b6fa4", "-.")}
PASS = ["rhat", "ess_bulk", "ess_tail"]  # short chains; a real release runs longer ones, and accepts nothing


def show(table, title, subtitle=None, digits=2):
    """A table as an editor would print it, numbers rounded."""
    shown = table.rename_axis(index="of").reset_index()
    real = [name for name in table if pd.api.types.is_float_dtype(table[name])]
    return GT(shown, rowname_col="of").tab_header(title, subtitle).fmt_number(real, decimals=digits)


households = ss.datasets.consumer_units(600, seed=SEED).assign(weight=1.0)
design = ss.SurveyDesign(households, weights="weight")
income = households["income"]
print(f"{len(households)} households, {(income == 0).mean():.1%} without income, median {income.median():,.0f}, "
      f"mean {income.mean():,.0f}")  # fmt: skip

# %% [markdown]
# ## 1. The model
#
# Incomes are skewed, some are zero, a few are negative. `Mixture` puts several regressions on top of each other, as
# many as the file asks for out of at most 20, on the scale asinh(income / 1000), which is a logarithm for large
# amounts and takes zero and losses. Exact zeros get a probability of their own. The bounds are public: no household is
# published with more than two million.

# %%
model = ss.Mixture(
    "income", "age_group + urban + marital + tenure", transform=ss.AsinhTransform(scale=1000), zeros=True,
    bounds=(-200_000, 2_000_000),
)  # fmt: skip


def files(mechanism):
    """Synthetic files under a mechanism, for inside."""
    done = ss.fit(design, model, mechanism=mechanism, **SHORT)
    return done, done.release(accept_diagnostics=PASS)


plain, synthesizer = files(ss.PseudoPosterior(c1=1e9))  # a huge c1: no privacy weights
components = model.components_of(plain.records, plain.weighted.posterior).head(4).reset_index(drop=True)
shares = ["share", "share_low", "share_high"]
(
    show(components.set_axis(components.index + 1), "The largest components", "of households with an income")
    .tab_stubhead("component").fmt_percent(shares, decimals=1).tab_spanner("95% interval", shares[1:])
    .tab_spanner("on the working scale", ["location", "sd"])
    .cols_label(share_low="from", share_high="to", sd="standard deviation")
)  # fmt: skip

# %% [markdown]
# Each line is one component: its share of the households with an income, and where it is on the working scale. The
# labels of components change along a chain; the table has matched them.
#
# ## 2. The risk of each record
#
# The intruder knows a neighbour's age group, marital status and whether the place is urban, and about what they earn.
# In a synthetic file they look among the records that agree for incomes within 20% (or 500 dollars, for those near
# zero). If the neighbour's own synthetic income is there, and few others are, the risk is high:
#
#     IR_i = T_i * (share of the group's synthetic incomes that are not near)          (eq. 8)
#
# T_i says whether the own one is. Released as it is, the file itself has T_i = 1 everywhere.

# %%
INTRUDER = {"known": KNOWN, "value": "income", "radius": 0.2, "floor": 500}
risk = pd.DataFrame({
    "data": ss.identification_risk(households, households, **INTRUDER),
    "top-coded": ss.identification_risk(households, households.assign(income=income.clip(upper=300_000)), **INTRUDER),
    "synthesizer": ss.identification_risk(households, synthesizer, **INTRUDER),
})  # fmt: skip


def profile(risk):
    """Where the risks lie."""
    table = pd.DataFrame({
        "mean": risk.mean(), "q90": risk.quantile(0.9), "largest": risk.max(), "above": (risk > 0.5).sum(),
    })  # fmt: skip
    return show(table, "Risk of identification", "of 600 households, from 0 to 1").cols_label(
        q90="90th percentile", above="households above 0.5"
    )


profile(risk)

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for name, (color, line) in LOOKS.items():
    axes.plot(np.linspace(0, 100, len(risk)), np.sort(risk[name]), line, color=color, lw=2, label=name)
axes.set(
    xlabel="households in the order of their risk, percent", ylabel="risk of identification", ylim=(0, 1),
    title="The file itself, the file top-coded, and synthetic files",
)  # fmt: skip
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# Top-coding takes the largest incomes away and leaves nearly everybody else as easy to find as before.
#
# ## 3. Privacy weights from the risk
#
# `MarginalRisk` weighs a record by 1 - IR_i. `PairwiseRisk` looks at pairs: how likely are two records to be found
# together, and on average over all partners? Pairs share their risk, so that no record is moved alone. With
# `map="linear"` the weights are c1 times that, plus c2; with c1 = 1 and c2 = 0 they are the paper's own.

# %%
near = {"known": KNOWN, "radius": 0.2, "floor": 500, "datasets": MANY}
_, marginal = files(ss.PseudoPosterior(risk=ss.MarginalRisk(**near), map="linear", c1=1))
_, pairwise = files(ss.PseudoPosterior(risk=ss.PairwiseRisk(**near), map="linear", c1=1))
for name, release in {"marginal": marginal, "pairwise": pairwise}.items():
    risk[name] = ss.identification_risk(households, release, **INTRUDER)
    alpha = release.internal["records"]["alpha"]
    print(f"{name}: privacy weights from {alpha.min():.2f} to {alpha.max():.2f}, mean {alpha.mean():.2f}")

# %%
profile(risk)

# %% [markdown]
# The weights are near 1 here, since a synthetic file of this model is safe to begin with: a record's own synthetic
# income is drawn given its predictors alone, and T_i is mostly 0. The paper prints much smaller ones, most of its
# pairwise weights about 0.25. Such weights come out where the confidential file stands in for the synthetic one, T_i =
# 1:

# %%
from_file = ss.pairwise_weights(households, households, **INTRUDER)
print(f"pairwise weights made from the file itself: mean {from_file.mean():.2f}, least {from_file.min():.2f}")

# %% [markdown]
# Another difference: the paper draws the component of a synthetic income given the confidential one (its eq. 7).
# `allocation="posterior"` does that. Where one component has nearly all, as here, it changes little; with several it
# follows the records more closely. Such files have no epsilon, and a release of them says so:

# %%
paper = ss.Mixture(
    "income", "age_group + urban + marital + tenure", transform=ss.AsinhTransform(scale=1000), zeros=True,
    bounds=(-200_000, 2_000_000), allocation="posterior",
)  # fmt: skip
followed = ss.synthesize(design, paper, mechanism=ss.PseudoPosterior(c1=1e9), accept_diagnostics=PASS, **SHORT)
print(followed)
risk["given the record"] = ss.identification_risk(households, followed, **INTRUDER)
profile(risk[["synthesizer", "given the record"]])

# %% [markdown]
# ## 4. Who got worse
#
# Moving the risky records can leave others standing alone. The paper counts those whose risk rose by more than 0.25.
# Some of that is chance, for every file is a new draw; a second set of files from the same fit shows how much.

# %%
again = ss.identification_risk(households, plain.release(accept_diagnostics=PASS), **INTRUDER)
rose = {"chance alone": again, "marginal": risk["marginal"], "pairwise": risk["pairwise"]}
for name, values in rose.items():
    print(f"{name}: {(values > risk['synthesizer'] + 0.25).sum()} records rose by more than 0.25")

# %%
figure, panels = plt.subplots(1, 3, figsize=(8.5, 3.3), layout="constrained", sharex=True, sharey=True)
for axes, (name, values) in zip(panels, rose.items(), strict=True):
    more = values > risk["synthesizer"] + 0.25
    axes.plot([0, 0.6], [0, 0.6], color="#7f7f7f", lw=1)
    axes.plot([0, 0.35], [0.25, 0.6], "--", color="#7f7f7f", lw=1)
    axes.plot(risk["synthesizer"][~more], values[~more], ".", color="#0b6fa4", alpha=0.35, mec="none")
    axes.plot(risk["synthesizer"][more], values[more], "^", color="#c26a00", ms=5)
    axes.set(title=name, xlim=(-0.02, 0.6), ylim=(-0.02, 0.6))
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("risk in the new files")
panels[1].set_xlabel("risk in the synthesizer's files")
figure.suptitle("Risks before and after; triangles rose by more than 0.25")
plt.show()

# %% [markdown]
# On the solid line nothing changed. The two weighted sets were drawn with the seed of the synthesizer's files, and so
# share most of their chance. With the next seed 10 and 13 records rose, about as many as by chance alone. So nothing
# here says that the weights moved risk to others.
#
# ## 5. What is left of the statistics


# %%
def statistics(y):
    """Mean, median, 90th percentile and share of zeros."""
    return {"mean": y.mean(), "median": y.median(), "q90": y.quantile(0.9), "zeros": (y == 0).mean()}


kept = {"data": statistics(income)}
for name, release in {"synthesizer": synthesizer, "marginal": marginal, "pairwise": pairwise}.items():
    kept[name] = pd.DataFrame([statistics(d.frame["income"]) for d in release.datasets]).mean()
(
    show(pd.DataFrame(kept).T, "Household income, dollars", "of the file, and means over ten synthetic files", digits=0)
    .fmt_percent("zeros", decimals=1).cols_label(q90="90th percentile", zeros="without income")
)  # fmt: skip

# %% [markdown]
# ## 6. A release with a rule
#
# An agency may say: no record above 0.5. In one file of this model some are, by chance; in the mean of three, as below,
# none is above 0.9. The rule looks at the data sets before they leave. If one record is above,
# nothing is released. As it looks at the confidential file, epsilon does not cover it, and that a release was blocked
# is not to be published. (At epsilon 20 the privacy weights keep less than 30% of this file's information. Such a
# release is refused, too, unless it is accepted by name, as here.)

# %%
rule = ss.IdentificationRule(KNOWN, max_risk=0.5, radius=0.2, floor=500)
try:
    plain.release(m=1, accept_diagnostics=PASS, rule=rule)
except ss.PrivacyError as blocked:
    print(str(blocked).split(". ")[0])

released = ss.synthesize(
    design, model, epsilon=20, m=3, rule=ss.IdentificationRule(KNOWN, max_risk=0.9, radius=0.2, floor=500),
    mechanism=ss.PseudoPosterior(risk=ss.MarginalRisk(**near), map="linear"), accept_diagnostics=[*PASS, "information"],
    chains=3, warmup=80, draws=120, seed=SEED,
)  # fmt: skip
print(released)
print(*(line.strip() for line in str(released.privacy).splitlines() if "passed a rule" in line))
table = released.tables(by="tenure", outcome="income")

# %%
show(
    table.loc[table["statistic"] == "mean", ["tenure", "estimate", "se"]].set_index("tenure"),
    "Mean household income by tenure", "of the release, in dollars", digits=0,
).cols_label(se="standard error")  # fmt: skip

# %% [markdown]
# One file (m = 1) shows each record once: either its synthetic income is near or it is not, so that the risk of some
# is high by chance. Several files are averaged. For the whole comparison on your own file, with violins, the ten
# riskiest records and the effect of the radius, in a checkout of the repository:
#
#     python -m replication.risk_efficient --data survey.csv --value income --predictors "age_group + tenure" \
#         --known age_group,urban --scale 1000 --out study
#
# and for files that exist already: `surveysynth risk original.csv synthetic_*.csv --known age_group --value income
# --out risk`.
