"""What a release from parquet files costs as n grows: seconds of each step, peak memory, bytes read.

Every size and mechanism runs in a process of its own.

    python benchmarks/scan.py [--sizes 100000,1000000,10000000] [--mechanisms pseudo,strict] [--folder /tmp/scan-bench]

The file has twelve columns of raw data, two outcomes and the weight; the model uses three of the twelve.  The floor is
what polars takes for the confidential means by these three alone.  Files are removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LEVELS = {  # of the columns of labels
    "region": 9, "sex": 2, "education": 4, "occupation": 90, "sector": 20, "tenure": 5, "language": 12, "origin": 60,
}  # fmt: skip
PREDICTORS = ["region", "sex", "education"]
BOUNDS = (0, 1_000_000)
ROWS = 1 << 18


def write(n: int, file: Path) -> None:
    """n records, in groups of rows: nothing of the whole is ever in memory."""
    rng = np.random.default_rng(n)
    writer = None
    for first in range(0, n, ROWS):
        size = min(ROWS, n - first)
        code = {name: rng.integers(0, levels, size) for name, levels in LEVELS.items()}
        e = rng.standard_t(6, size) / 1.22
        pay = np.exp(10 + 0.04 * code["region"] + 0.1 * code["sex"] + 0.15 * code["education"] + 0.6 * e)
        rent = np.exp(8 + 0.05 * code["region"] + 0.3 * e + 0.4 * rng.standard_normal(size))
        columns = {
            **{name: pa.array(np.char.add(f"{name} ", values.astype(str))) for name, values in code.items()},
            **{name: rng.integers(0, 100, size) for name in ("age", "children", "rooms", "year")},
            "pay": np.minimum(pay, BOUNDS[1]), "rent": np.minimum(rent, BOUNDS[1]),
            "w": 40 * np.exp(-0.25 * e + 0.5 * rng.standard_normal(size)),
        }  # fmt: skip
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def bytes_read() -> int:
    """Of this process so far, from files."""
    said = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(said["rchar"])


def one(file: Path, mechanism: str, out: Path) -> dict[str, float]:
    """Seconds, wall and CPU, of the steps of one release."""
    import surveysynth as ss

    began, steps = bytes_read(), {}
    last = time.perf_counter(), time.process_time()

    def done(step: str) -> None:
        nonlocal last
        now = time.perf_counter(), time.process_time()
        steps[step], steps[f"{step}, CPU"] = now[0] - last[0], now[1] - last[1]
        last = now

    design = ss.SurveyDesign.scan(file, weights="w")
    done("scan")
    formula = "pay + rent ~ " + " + ".join(PREDICTORS)
    total = float(f"{design.weights.sum():.3g}")
    amounts = {name: ss.Outcome(bounds=BOUNDS) for name in ("pay", "rent")}
    if mechanism == "strict":
        release = ss.synthesize(design, formula, epsilon=5, m=4, outcomes=amounts, population_total=total)
    else:
        model = ss.FBS(formula, prior="flat")
        release = ss.synthesize(
            design, model, epsilon=10.8, m=3, mechanism=ss.PseudoPosterior(), population_total=total,
            accept_diagnostics=["information"],
        )  # fmt: skip
    done("synthesize")
    release.write(out, by=PREDICTORS, format="parquet")
    done("tables and files")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return steps | {"GB at most": peak, "GB read": (bytes_read() - began) / 1e9}


def floor(file: Path) -> float:
    """Seconds that polars takes for the confidential means and counts of all cells."""
    import polars as pl

    began = time.perf_counter()
    weighted = [(pl.col(y) * pl.col("w")).sum().alias(y) for y in ("pay", "rent")]
    pl.scan_parquet(file).group_by(PREDICTORS).agg(pl.col("w").sum(), *weighted).collect()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="100000,1000000,10000000")
    parser.add_argument("--mechanisms", default="pseudo,strict")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/scan-bench"))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # file and mechanism: in a process of its own
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(Path(given.one[0]), given.one[1], given.folder / "release")))
        return
    given.folder.mkdir()
    try:
        before: dict[str, tuple[int, float]] = {}
        for n in map(int, given.sizes.split(",")):
            file = given.folder / f"{n}.parquet"
            write(n, file)
            print(f"n = {n:,}: {file.stat().st_size / 1e9:.2f} GB; floor, polars: {floor(file):.2f} s", flush=True)
            for mechanism in given.mechanisms.split(","):
                command = [sys.executable, __file__, "--folder", str(given.folder), "--one", str(file), mechanism]
                found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout.splitlines()[-1])
                cpu = sum(seconds for step, seconds in found.items() if step.endswith("CPU"))
                said = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
                print(f"  {mechanism}: {said}", flush=True)
                if mechanism in before:
                    small, seconds = before[mechanism]
                    print(f"    CPU seconds grow as n^{np.log(cpu / seconds) / np.log(n / small):.2f}", flush=True)
                before[mechanism] = n, cpu
                shutil.rmtree(given.folder / "release")
            file.unlink()
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
