#!/usr/bin/env bash
# Runs the tests that need CmdStan:  tests/cmdstan.sh [arguments of pytest]
#
# With the CmdStan that CMDSTAN names, or else with one that ../shared/cmdstan/assemble.sh puts together once (5 minutes)
# in the user's cache folder, or else with the one that cmdstanpy finds.
set -euo pipefail
cd "$(dirname "$0")/.."

assemble=../shared/cmdstan/assemble.sh
if [[ -z ${CMDSTAN:-} && -f $assemble ]]; then
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/surveysynth-tests
    log=$(mktemp)
    PYTHON=$PWD/.venv/bin/python bash "$assemble" "$folder" >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 2; }
    rm -f "$log"
    export CMDSTAN="$folder/cmdstan-2.35.0"
fi
.venv/bin/python - <<'PY' || exit 2
import sys
from surveysynth import EngineError
from surveysynth.engines.cmdstan import find_cmdstan
try:
    print("CmdStan", find_cmdstan()[1])
except EngineError as error:
    sys.exit(str(error))
PY
exec .venv/bin/pytest -n 2 -m cmdstan "$@"
