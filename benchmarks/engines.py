"""Both engines, program by program: time to compile, largest difference in Monte Carlo errors, CPU seconds.

    CMDSTAN=... python benchmarks/engines.py          (tests/cmdstan.sh puts a CmdStan together)

Programs are compiled into an empty cache, and sampled with 4 chains of 1,000 draws after 1,000 of warm-up, as
the tests of tests/engines/test_cmdstan.py do; n = 300.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.engines.agreement import compare
from tests.engines.test_cmdstan import COMPARED, given

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        print("| program | compiling, s | largest z | log density, relative | CPU s embedded | CPU s CmdStan |")
        print("|---|---|---|---|---|---|")
        for case in COMPARED:
            found = compare(*given(case, Path(folder)))
            print(
                f"| {case} | {found.compiling:.0f} | {found.z:.1f} | {found.log_density:.0e} | "
                f"{found.cpu['embedded']:.1f} | {found.cpu['cmdstan']:.1f} |", flush=True,
            )  # fmt: skip
