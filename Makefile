# Each command, alone, sets up what it needs (setup.sh) on a fresh Debian 12 machine.

.PHONY: help demo test test-all cmdstan fuzz reference lint

help:
	@echo "make demo       a private release of weekly income from a sample of real census records, in demo-release/"
	@echo "make test       lint, types and the tests: some minutes"
	@echo "make test-all   all that, then the slower tests"
	@echo "make fuzz       ten times as many made-up files, arguments and kills as make test-all has"
	@echo "make cmdstan    every Stan program on a real CmdStan, which is put together where CMDSTAN is not set"
	@echo "make reference  slow comparisons with reference implementations"
	@echo "make lint       ruff, mypy and the contracts of imports"

demo: .venv/.demo
	rm -rf demo-release
	.venv/bin/surveysynth demo --out demo-release

PYTEST = .venv/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder

test: lint
	$(PYTEST)

test-all: test
	$(PYTEST) -m "slow and not reference and not cmdstan"

fuzz: .venv/.test
	SURVEYSYNTH_FUZZ=10 $(PYTEST) -m slow tests/fuzz

cmdstan: .venv/.cmdstan
	tests/cmdstan.sh

reference: .venv/.reference
	.venv/bin/pytest -m reference

lint: .venv/.test
	.venv/bin/ruff check .
	.venv/bin/mypy surveysynth
	.venv/bin/lint-imports

.venv/.%: setup.sh pyproject.toml constraints.txt
	bash setup.sh $*
