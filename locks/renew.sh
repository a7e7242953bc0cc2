#!/usr/bin/env bash
# Writes the lock files anew: every package that a set-up installs, with the SHA-256 of each of its files.
#
#   locks/renew.sh            the newest versions that pyproject.toml allows
#   locks/renew.sh --keep     the versions of the lock files that are there
#
# demo.txt is for `make demo`, docs.txt for `make docs`, test.txt for everything else.  Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "$0")/.."
lock() { # lock NAME EXTRA...
    local out=locks/$1.txt keep=()
    [[ ${mode:-} != --keep ]] || keep=(-c locks/test.txt)
    uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
        --no-annotate --no-header --no-emit-index-url "${keep[@]}" "${@:2}" pyproject.toml locks/build.in -o "$out.new"
    mv "$out.new" "$out"
}
mode=${1:-}
lock test --all-extras
lock demo --extra demo -c locks/test.txt
lock docs --extra demo --extra docs -c locks/test.txt
