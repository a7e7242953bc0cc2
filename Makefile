# Each command, alone, sets up what it needs (setup.sh) on a fresh Debian 12 machine.

.PHONY: help demo docs test test-all cmdstan fuzz reference wheels sbom lint

help:
	@echo "make demo       a private release of weekly income from a sample of real census records, in demo-release/"
	@echo "make docs       the documentation site, in docs/_build/html: minutes, and seconds where nothing changed"
	@echo "make test       lint, types and the tests: some minutes"
	@echo "make test-all   all that, then the slower tests"
	@echo "make fuzz       ten times as many made-up files, arguments and kills as make test-all has"
	@echo "make cmdstan    every Stan program on a real CmdStan: the one that CMDSTAN names, or else see tests/cmdstan.sh"
	@echo "make reference  slow comparisons with reference implementations"
	@echo "make wheels     a release from the wheel on every Python from 3.11 on that is here, and the same bytes from all"
	@echo "make sbom       what is installed with the package, as CycloneDX, in sbom.json"
	@echo "make lint       ruff, mypy and the contracts of imports"

demo: .venv/.demo
	rm -rf demo-release
	.venv/bin/surveysynth demo --out demo-release

docs: .venv/.docs
	.venv/bin/python docs/site/make_site.py

# two processes, of one thread each for linear algebra: threads of both would wait for each other
PYTEST = OPENBLAS_NUM_THREADS=1 .venv/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder

test: lint
	$(PYTEST)

test-all: test
	$(PYTEST) -m "slow and not reference and not cmdstan"

fuzz: .venv/.test
	SURVEYSYNTH_FUZZ=10 $(PYTEST) -m slow tests/fuzz

cmdstan: .venv/.cmdstan
	tests/cmdstan.sh $(if $(ONLY),-k '$(ONLY)')

wheels: .venv/.test
	.venv/bin/python tests/wheels.py

sbom: .venv/.test
	.venv/bin/cyclonedx-py requirements locks/demo.txt --pyproject pyproject.toml --of JSON -o sbom.json

reference: .venv/.reference
	.venv/bin/pytest -m reference

lint: .venv/.test
	.venv/bin/ruff check .
	.venv/bin/mypy surveysynth replication
	.venv/bin/lint-imports

.venv/.%: setup.sh pyproject.toml locks/demo.txt locks/docs.txt locks/test.txt
	bash setup.sh $*
