#!/usr/bin/env bash
# Prepares what a command of the Makefile needs:  setup.sh demo | docs | test | cmdstan | reference
#
#   1. Debian packages: as root, installs the missing ones; otherwise says which and how, and exits with 2.
#   2. .venv: a virtual environment with the packages of locks/, each checked by its SHA-256, and surveysynth (editable).
#
# .venv/.demo, .venv/.test and so on record what is done; make runs this script when
# the record is missing or older than pyproject.toml, the lock files or this file.
set -euo pipefail
cd "$(dirname "$0")"

stage=${1:-}
debian=()
case $stage in
    demo)      lock=demo done=(demo) ;;
    docs)      lock=docs done=(demo docs) debian+=(r-base-core) ;; # the help of the R package
    test)      lock=test done=(demo docs test) ;;
    cmdstan)   lock=test done=(demo docs test cmdstan) ;;
    reference) lock=test done=(demo docs test reference) ;;
    *)         echo "usage: $0 demo|docs|test|cmdstan|reference" >&2; exit 2 ;;
esac
[[ $lock != test ]] || debian+=(r-base-core r-cran-{survey,sampling,laeken,mitools,jsonlite,bit64}) # to compare with
[[ $lock != test ]] || debian+=(r-cran-{haven,reticulate,testthat,knitr,rmarkdown} pandoc) # labelled columns, the R package and its vignettes
[[ $lock != test ]] || debian+=(r-cran-{cli,dplyr,generics,ggplot2,tibble}) # that its results go with
[[ $lock != test ]] || debian+=(texlive-latex-recommended lmodern) # printed tables are compiled
[[ $lock != test ]] || debian+=(chromium fonts-dejavu-core) # the page is tried in a browser
[[ $lock != test ]] || debian+=(libpango-1.0-0 libpangoft2-1.0-0) # dossiers are made PDF
[[ $stage != cmdstan ]] || debian+=(g++ make xz-utils)
[[ $stage != reference ]] || debian+=(r-cran-rstan libboost-dev dpkg-dev g++) # rstan asks dpkg-architecture

stop() {
    printf 'surveysynth: %s\n' "$@" >&2
    exit 2
}

installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# ---- Debian packages

missing=()
if ! command -v python3 >/dev/null; then
    missing+=(python3 python3-venv)
elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    missing+=(python3-venv)
fi
for package in "${debian[@]}"; do
    installed "$package" || missing+=("$package")
done

if ((${#missing[@]})); then
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        stop "\`make $stage\` needs these Debian packages, which are not installed: ${missing[*]}" \
            "install them with" \
            "    sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}" \
            "then run \`make $stage\` again (as root, \`make $stage\` installs them itself)"
    fi
    echo "Installing Debian packages: ${missing[*]}"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    apt=(apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null
    then
        tail -n 20 "$log" >&2
        stop "apt-get could not install: ${missing[*]} (its last messages are above, all of them in $log)"
    fi
    rm -f "$log"
fi

# ---- the virtual environment

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "Python 3.11 or later is needed; python3 is $(python3 --version 2>&1), $(command -v python3)"

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    echo "Making the virtual environment .venv"
    python3 -m venv --clear .venv
fi

echo "Installing surveysynth and the packages of locks/$lock.txt into .venv (the first time takes a minute or two)"
export PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_BUILD_CONSTRAINT=locks/test.txt # binds what builds packages, too
export RPY2_CFFI_MODE=ABI # rpy2 without its compiled part needs no compiler and no -dev packages
.venv/bin/python -m pip install --quiet --require-hashes -r "locks/$lock.txt"
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .

for name in "${done[@]}"; do
    touch ".venv/.$name"
done
