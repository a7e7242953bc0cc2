"""The command ``risk``, the risks of identification and the rule on the command line."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import modes, squeezed
from surveys import make_frame

import surveysynth as ss
from tests.surveys import PSEUDO

FIT = ["--weights", "wt", "--set", "model.prior=flat", "--seed", "1"]
ASYMPTOTIC = ["--set", "privacy.mechanism=pseudo-posterior"]


def sets(entries):
    """Entries and values as words."""
    return [word for entry in entries.split() for word in ("--set", entry)]


pytestmark = pytest.mark.usefixtures("folder")


def shares(frame, files, known, near):
    """Hu, Savitsky & Williams (2022b, eq. 8) record by record, averaged over the files: pattern sizes and risks."""
    size, risk = np.zeros(len(frame), dtype=int), np.zeros(len(frame))
    labels = [tuple(row) for row in frame[known].to_numpy(dtype=object)]
    for i, label in enumerate(labels):
        alike = [h for h, other in enumerate(labels) if other == label]
        size[i] = len(alike)
        for file in files:
            inside = near(file, i)
            risk[i] += inside[i] * np.mean([not inside[h] for h in alike]) / len(files)
    return size, risk


@pytest.fixture
def people(folder):
    """60 records, two synthetic files: one csv, one parquet."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({
        "age": rng.choice(["young", "old"], 60), "sex": rng.choice(["f", "m"], 60),
        "pay": rng.gamma(4, 500, 60).round(), "rent": rng.gamma(9, 60, 60).round(),
    })  # fmt: skip
    files = [frame.assign(pay=(frame["pay"] * rng.uniform(0.7, 1.3, 60)).round(), rent=rng.permuted(frame["rent"]))
             for _ in range(2)]  # fmt: skip
    frame.to_csv("original.csv", index=False)
    files[0].to_csv("one.csv", index=False)
    files[1].to_parquet("two.parquet")
    return frame, files


def test_the_file_has_the_risk_of_every_record_and_is_private(people, run):
    frame, files = people
    code, out, err = run("risk", "original.csv", "one.csv", "two.parquet", "--known", "age, sex", "--value", "pay",
                         "--radius", "0.1", "--floor", "150", "--out", "risks")  # fmt: skip
    assert (code, err) == (0, "")
    y = frame["pay"].to_numpy()
    size, risk = shares(frame, files, ["age", "sex"], lambda f, i: np.abs(f["pay"] - y[i]) <= max(0.1 * y[i], 150))
    written = pd.read_csv("risks/risk.csv")
    assert written.columns.tolist() == ["row", "pattern_size", "risk"]
    assert written["row"].tolist() == list(range(60)) and written["pattern_size"].tolist() == size.tolist()
    np.testing.assert_allclose(written["risk"], risk, atol=1e-12)
    assert Path("risks").stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir("risks")) == ["NOT-FOR-PUBLICATION.txt", "risk.csv"]
    out = squeezed(out)
    assert "60 records; patterns of what is known: 4, of one record: 0; synthetic data sets: 2." in out
    spread = f"mean {risk.mean():.3f}, median {np.median(risk):.3f}, 90th percentile {np.quantile(risk, 0.9):.3f}, "
    assert spread in out
    assert f"largest {risk.max():.3f}; above 0.5: {(risk > 0.5 + 1e-9).sum()} records." in out and (risk > 0.5).any()
    assert "nothing was released" in out and out.rstrip().endswith("Written: risks/risk.csv (to keep)")


def test_only_the_owner_reads_risks_whatever_the_umask(people, run, open_to_all):
    asked = ["risk", "original.csv", "one.csv", "--value", "pay", "--out", "risks"]
    for words in (asked, [*asked, "--overwrite"]):
        assert run(*words)[0] == 0
        assert modes("risks") == ({"0o700"}, {"0o600"})


def test_known_columns_that_were_synthesized_match_in_each_file(people, run):
    """Age is the same and rent within 30%; eq. 8 among the synthetic records that match, and T / c."""
    frame, files = people
    rng = np.random.default_rng(6)
    files = [file.assign(age=rng.permutation(file["age"])) for file in files]
    files[0].to_csv("one.csv", index=False)
    files[1].to_parquet("two.parquet")
    code, out, err = run("risk", "original.csv", "one.csv", "two.parquet", "--known", "age,sex,rent", "--value", "pay",
                         "--synthesized", "rent,age", "--radius", "0.2,0.3", "--out", "risks")  # fmt: skip
    assert (code, err) == (0, "")
    size, risk, match = np.zeros((3, 60))
    for file in files:
        for i, own in frame.iterrows():
            alike = (file["age"] == own["age"]) & (frame["sex"] == own["sex"])
            alike &= (file["rent"] - own["rent"]).abs() <= 0.3 * own["rent"]
            inside = alike & ((file["pay"] - own["pay"]).abs() <= 0.2 * own["pay"])
            size[i] += alike.sum() / 2
            if inside[i]:
                risk[i] += (1 - inside.sum() / alike.sum()) / 2
                match[i] += 1 / inside.sum() / 2
    written = pd.read_csv("risks/risk.csv")
    np.testing.assert_allclose(written[["pattern_size", "risk"]], np.column_stack([size, risk]), atol=1e-12)
    assert risk.max() > 0 and (size % 1 == 0.5).any()
    out = squeezed(out)
    assert f"match what is known (age, rent synthesized): mean {size.mean():.1f}; records that none matches" in out
    assert f"in any data set: {(size == 0).sum()}; synthetic data sets: 2." in out
    assert f"Expected match risk: {match.sum():.1f} records (the intruder" in out
    assert f"all known values); above 0.5: {(match > 0.5 + 1e-9).sum()} records." in out


@pytest.mark.parametrize("known", [[], ["--known", ""]], ids=["absent", "empty"])
def test_two_values_and_no_known_column_put_all_records_in_one_pattern(known, people, run):
    frame, files = people
    asked = ["--value", "pay,rent", "--radius", "400,90", "--absolute", "--out", "risks"]
    code, out, _ = run("risk", "original.csv", "one.csv", *asked, *known)
    y, x = frame["pay"].to_numpy(), frame["rent"].to_numpy()
    size, risk = shares(
        frame.assign(all="all"), files[:1], ["all"],
        lambda f, i: (np.abs(f["pay"] - y[i]) <= 400) & (np.abs(f["rent"] - x[i]) <= 90),
    )  # fmt: skip
    written = pd.read_csv("risks/risk.csv")
    assert code == 0 and written["pattern_size"].tolist() == size.tolist() == [60] * 60 and risk.max() > 0
    np.testing.assert_allclose(written["risk"], risk, atol=1e-12)
    assert "patterns of what is known: 1, of one record: 0; synthetic data sets: 1." in squeezed(out)


def test_a_limit_fails_once_the_file_is_written_and_nothing_is_overwritten_unasked(people, run, monkeypatch):
    asked = ["risk", "original.csv", "one.csv", "--value", "pay", "--out", "risks"]
    code, out, err = run(*asked, "--max-risk", "0.5")
    risk = pd.read_csv("risks/risk.csv")["risk"]
    assert (code, len(risk)) == (2, 60) and "Written: risks/risk.csv" in out
    assert err.startswith(f"Error: {(risk > 0.5).sum()} of 60 records have a probability of identification above 0.5")
    assert len(err.splitlines()) == 1
    before = Path("risks/risk.csv").read_bytes()
    code, out, err = run(*asked, "--radius", "0.6", "--max-risk", "0.999")
    assert (code, out) == (2, "") and "--out risks exists; choose another folder, or --overwrite" in err
    assert Path("risks/risk.csv").read_bytes() == before
    assert run(*asked, "--radius", "0.6", "--max-risk", "0.999", "--overwrite")[0] == 0
    after = Path("risks/risk.csv").read_bytes()
    assert after != before and Path("risks/risk.csv").stat().st_mode & 0o777 == 0o600
    Path("kept").mkdir()
    Path("kept/thesis.txt").write_text("mine")
    code, _, err = run(*asked[:-1], "kept", "--overwrite")
    assert code == 2 and "--out kept exists and has no risk.csv to replace" in err

    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    for further in (["--overwrite"], ["--out", "new"]):
        assert run(*(asked[:-2] if "--out" in further else asked), *further)[::2] == (2, "Error: no space left\n")
    assert Path("risks/risk.csv").read_bytes() == after
    assert sorted(os.listdir()) == ["kept", "one.csv", "original.csv", "risks", "two.parquet"]
    assert sorted(os.listdir("risks")) == ["NOT-FOR-PUBLICATION.txt", "risk.csv"]


def synthesized(run, *further, drop=()):
    frame = make_frame().replace("NA", "n/a.")
    frame.loc[list(drop), "income"] = np.nan
    frame.to_csv("f.csv", index=False)
    asked = ["--formula", "income ~ field + gender + hours", "--by", "field", "--epsilon", "30", "--out", "release"]
    return frame, run("synthesize", "f.csv", *FIT, *asked, *ASYMPTOTIC, *further)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_release_folder_knows_the_order_of_its_records(kind, run):
    """Followed by their hours, which are public; records that were left out have no risk."""
    frame, (code, _, err) = synthesized(
        run, *sets(f"model.missing=drop release.format={kind} release.m=2"), drop=(0, 70, 399)
    )
    assert (code, err) == (0, "")
    code, out, err = run("risk", "f.csv", "release", "--known", "field,gender", "--value", "income", "--out", "risks")
    assert (code, err) == (0, "")
    assert "397 records (3 more were left out by the release); patterns of what is known: 8, of one" in squeezed(out)
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    there = frame[frame["income"].notna()].reset_index(drop=True)
    files = [read(f"release/public/synthetic_{k}.{kind}").set_index("hours").loc[there["hours"]] for k in (1, 2)]
    y = there["income"].to_numpy()
    values = [file["income"].to_numpy() for file in files]
    size, risk = shares(there, values, ["field", "gender"], lambda value, i: np.abs(value - y[i]) <= 0.2 * y[i])
    written = pd.read_csv("risks/risk.csv")
    left_out = written["risk"].isna()
    assert written.loc[left_out, "row"].tolist() == [0, 70, 399] and written.loc[left_out, "pattern_size"].isna().all()
    np.testing.assert_allclose(written.loc[~left_out, "risk"], risk, atol=1e-12)
    assert written.loc[~left_out, "pattern_size"].tolist() == size.tolist() and risk.max() > 0.2


def test_what_does_not_say_its_order_is_refused(run):
    assert synthesized(run)[1][0] == 0
    asked = ["--known", "field", "--value", "income", "--out", "risks"]
    public = "release/public/synthetic_1.csv"
    Path("elsewhere.csv").write_bytes(Path(public).read_bytes())
    Path("release/public").joinpath("two").mkdir()
    for files, message in (
        ([public], r"'release/public/synthetic_1.csv' is a public file of a release.* give the release folder instead"),
        (["release/public"], r"the release in 'release/public' lacks internal/rows.csv"),
        (["elsewhere.csv"], r"column 'field' differs from the original in \d+ rows .* Row i of both must be the same"),
        (["release", "release"], "'release' is a folder: give one release folder, or synthetic files"),
        (["release", "--synthesized", "field"], "a Release knows what was synthesized"),
    ):
        code, out, err = run("risk", "f.csv", *files, *asked)
        assert (code, out) == (2, "") and re.search(message, err) and len(err.splitlines()) == 1
    rows = pd.read_csv("release/internal/rows.csv")
    text = rows.astype(str) + "x"
    for damaged in (rows.iloc[:-1], rows.iloc[:, :2], rows.assign(synthetic_2=0), rows - 1, rows / 2, text):
        damaged.to_csv("release/internal/rows.csv", index=False)
        code, _, err = run("risk", "f.csv", "release", *asked)
        assert code == 2 and "'release/internal/rows.csv' does not go with the public files, or is damaged" in err
    assert not Path("risks").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--value", "wage"], "original: there is no column 'wage'"), (["--value", ""], "value must name one column"),
     (["--value", "pay", "--known", "height"], "there is no column 'height'"),
     (["--value", "pay", "--known", "pay"], "not in known"), (["--value", "sex"], "column 'sex' is not a number"),
     (["--value", "pay", "--radius", "wide"], "'--radius': numbers were expected"),
     (["--value", "pay", "--radius", "1,2"], "radius must be a finite number"),
     (["--value", "pay", "--absolute"], "--absolute needs --radius"),
     (["--value", "pay", "--synthesized", "age"], "synthesized names 'age', which is not in known"),
     (["--value", "pay", "--known", "sex,rent", "--synthesized", "rent", "--radius", "1,2,3"],
      "one for each of pay, rent"),
     (["--value", "pay", "--floor", "-1"], "floor must be a finite number"),
     (["--value", "pay", "--max-risk", "1"], "--max-risk must be a number from 0 to below 1"),
     (["--value", "pay", "--known", "age", "--out", "original.csv"], "--out original.csv exists"),
     ([], "Missing option '--value'")],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_wrong_options_get_a_sentence(options, message, people, run):
    out = [] if "--out" in options else ["--out", "risks"]
    code, out, err = run("risk", "original.csv", "one.csv", *out, *options)
    assert (code, out) == (2, "") and message in squeezed(err) and not Path("risks").exists()


def test_a_file_of_another_length_or_none_is_refused(people, run):
    people[0].iloc[:50].to_csv("short.csv", index=False)
    short = "data set 2 has 50 records and the original 60"
    for file, message in (("short.csv", short), ("no.csv", "no file 'no.csv'")):
        code, _, err = run("risk", "original.csv", "one.csv", file, "--value", "pay", "--out", "risks")
        assert code == 2 and message in err


# risks and the rule in synthesize and privacy-cost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "risk"),
    [("privacy.risk=marginal privacy.known=gender privacy.radius=0.3", ss.MarginalRisk(["gender"], 0.3)),
     ("privacy.risk=pairwise privacy.known=field,gender privacy.radius=5e3 privacy.absolute=true privacy.floor=10",
      ss.PairwiseRisk(["field", "gender"], 5e3, relative=False, floor=10)),
     ("privacy.risk=marginal", ss.MarginalRisk([]))],
)  # fmt: skip
def test_risks_of_identification_are_priced_and_released_as_by_python(options, risk, run):
    make_frame().replace("NA", "n/a.").to_csv("f.csv", index=False)
    asked = ["f.csv", *FIT, *ASYMPTOTIC, "--formula", "income ~ gender", "--epsilon", "10.8"]
    asked += sets(f"release.m=1 privacy.map=linear {options}")
    code, out, err = run("privacy-cost", *asked)
    assert (code, err) == (0, "")
    design, synthesizer = ss.SurveyDesign.read("f.csv", weights="wt"), ss.FBS("income", "gender", prior="flat")
    settings = {"epsilon": 10.8, "m": 1, "mechanism": ss.PseudoPosterior(map="linear", risk=risk), "seed": 1}
    p = ss.privacy_cost(design, synthesizer, **settings)
    found = f"Lipschitz bound {p.delta:.4g}, epsilon = {p.epsilon:.4g}"
    assert f"c1 = {p.c1:.4g} (Delta_target 5.4): {found}" in squeezed(out)
    code, out, err = run("synthesize", *asked, "--out", "release")
    assert (code, err) == (0, "") and "probability of identification" in squeezed(out)
    ours = ss.synthesize(design, synthesizer, **({"mechanism": PSEUDO} | settings)).datasets[0].frame["income"]
    np.testing.assert_array_equal(ss.read_release("release").datasets[0].frame["income"], ours)


def test_the_rule_stops_a_release_before_it_is_written_or_entered(run):
    make_frame().replace("NA", "n/a.").to_csv("f.csv", index=False)
    ss.Ledger("l.jsonl", "lfs", create=True)
    entries = "privacy.ledger=l.jsonl privacy.survey=lfs privacy.known=gender privacy.radius=0.1"
    asked = ["synthesize", "f.csv", *FIT, "--formula", "income ~ field + gender", "--epsilon", "10.8",
             "--out", "release", *ASYMPTOTIC, *sets(entries)]  # fmt: skip
    code, out, err = run(*asked, "--set", "privacy.max_risk=0")
    design = ss.SurveyDesign.read("f.csv", weights="wt")
    free = ss.synthesize(
        design, ss.FBS("income", "field + gender", prior="flat"), epsilon=10.8, m=3, seed=1, mechanism=PSEUDO
    )
    risk = ss.identification_risk(design, free, known="gender", value="income", radius=0.1)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert err.startswith(f"Error: {(risk > 0).sum()} of 400 records have a probability of identification above 0 in")
    assert len(ss.Ledger("l.jsonl", "lfs").entries()) == 0 and not Path("release").exists()
    code, out, err = run(*asked, "--set", f"privacy.max_risk={risk.max() + 1e-9}")
    assert (code, err) == (0, "") and "passed a rule" in squeezed(out)
    assert "passed a rule" in squeezed(Path("release/public/report.txt").read_text())
    assert len(ss.Ledger("l.jsonl", "lfs").entries()) == 1


def test_the_rule_goes_with_a_risk_of_its_own_and_not_with_a_policy(run):
    make_frame(seed=8).to_csv("old.csv", index=False)
    make_frame().replace("NA", "n/a.").to_csv("f.csv", index=False)
    policy = ["--source", "last year", "--population-total", "2e4", *sets("privacy.c1=0.7 privacy.map=linear")]
    of_model = ["--formula", "income ~ gender", "--epsilon", "40", *sets("model.prior=normal release.m=1")]
    assert run("policy", "old.csv", "--weights", "wt", *of_model, *policy, "--seed", "1", "--out", "p.npz")[0] == 0
    asked = ["synthesize", "f.csv", "--weights", "wt", *sets("privacy.policy=p.npz"), "--population-total", "2e4"]
    for entry, why in (
        ("privacy.known=gender", "the policy sets this"), ("privacy.radius=0.1", "the policy sets this"),
        ("privacy.max_risk=0.999", "not with a policy: what a rule let through is not strictly private"),
    ):  # fmt: skip
        code, out, err = run(*asked, "--set", entry, "--out", "no")
        assert (code, out) == (2, "") and squeezed(err).startswith(f"Error: {entry.partition('=')[0]}: {why}")
    code, out, err = run(
        "synthesize", "f.csv", *FIT, "--formula", "income ~ gender", "--epsilon", "10.8", "--out", "counted",
        *ASYMPTOTIC,
        *sets("privacy.risk=count privacy.known=field privacy.max_risk=0.999 release.accept=information"),
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "whose values are further" in squeezed(out) and "who knows field and its value" in squeezed(out)


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [("synthesize", "known=gender", "privacy.known: only with privacy.risk = 'marginal' or 'pairwise', or"),
     ("privacy-cost", "known=gender", "privacy.known: only with privacy.risk = 'marginal' or 'pairwise'"),
     ("synthesize", "risk=count known=gender", "privacy.known: only with privacy.risk = 'marginal' or 'pairwise'"),
     ("privacy-cost", "radius=0.3", "privacy.radius: only with privacy.risk = 'count', 'marginal' or 'pairwise'"),
     ("synthesize", "risk=marginal known=income", "known column 'income' is synthesized"),
     ("privacy-cost", "risk=pairwise known=nobody", "'nobody'"),
     ("privacy-cost", "risk=pairwise known=field radius=1,2", "PairwiseRisk(): radius has 2 numbers"),
     ("synthesize", "max_risk=1", "privacy.max_risk: Input should be less than 1"),
     ("synthesize", "max_risk=0.5 known=income", "known column 'income' is synthesized"),
     ("synthesize", "max_risk=0.5 known=nobody", "'nobody'"),
     ("synthesize", "max_risk=0.5 radius=many", "privacy.radius: Input should be a number, not 'many'"),
     ("synthesize", "max_risk=0.5 absolute=true", "privacy.absolute needs privacy.radius"),
     ("synthesize", "mechanism=censored risk=marginal", "privacy.risk: not with privacy.mechanism = 'censored'"),
     ("privacy-cost", "risk=identification", "'lipschitz', 'count', 'marginal' or 'pairwise'")],
)  # fmt: skip
def test_options_that_do_not_go_together_are_named(command, options, message, run):
    make_frame().to_csv("f.csv", index=False)
    entries = " ".join(f"privacy.{entry}" for entry in options.split())
    asked = [*FIT, "--formula", "income ~ gender", "--epsilon", "9", *sets(entries)]
    asked += ["--out", "release", "--population-total", "2e4"] if command == "synthesize" else []
    asked += [] if "mechanism" in options else ASYMPTOTIC
    code, said, err = run(command, "f.csv", *asked)
    assert (code, said) == (2, "") and message in squeezed(err) and os.listdir() == ["f.csv"]
