# The words of this project; `make` alone lists them.
PYTHON ?= python3
HOST   ?= 127.0.0.1
PORT   ?= 8000
OUT    ?= profiles
JOBS   ?= profiles/campaigns/cpu-2core.toml

VENV  := .venv
BIN   := $(VENV)/bin
# An index of PyTorch builds for an accelerator (docs/profile-your-gpu.md); empty: pip's own.
TORCH_INDEX ?=
STAMP := $(VENV)/.installed$(addprefix -,$(notdir $(TORCH_INDEX)))
CODE  := perfmodel service tests benchmarks examples docs deploy

.DEFAULT_GOAL := help
.PHONY: help dev fmt lint types test bench bench-accuracy bench-regret bench-reliability docs serve train profile check clean
.PHONY: image-check deploy-check

help: ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Stamped: a second run does nothing until the dependencies change.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "perfmodel needs Python 3.11 or later; try: make PYTHON=python3.11 <word>" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints.txt --index-url $(TORCH_INDEX) torch)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python deploy/torchvision_beside_cpu_torch.py
	@touch $@

dev: $(STAMP) ## set up .venv with everything needed to work on the project (TORCH_INDEX=URL: for a GPU)

fmt: dev ## rewrite the code in the house style
	$(BIN)/ruff check --fix-only --quiet $(CODE)
	$(BIN)/ruff format $(CODE)

lint: dev ## check style without changing anything
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: dev ## check types, strictly
	$(BIN)/mypy

# Much of a test is waiting for a process or a clock. A file stays whole: what its tests share is made once.
# In their order: by count of tests, files with one long test would come last, and alone.
test: dev ## set up and run all tests (style and types among them) in two processes
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

bench: dev ## run every benchmark, one after the other (coverage: every tenth model)
	@for file in $(filter-out benchmarks/accuracy.py benchmarks/regret.py benchmarks/reliability.py benchmarks/two_versions.py,$(wildcard benchmarks/[a-z]*.py)); do \
	  case $$file in *capture_coverage.py) some="--step 10" ;; *) some= ;; esac; \
	  echo "== $$file $$some"; $(BIN)/python $$file $$some || exit 1; \
	done

bench-accuracy: dev ## judge the predictors on frozen splits (FORM=--fast: the short form)
	$(BIN)/python benchmarks/accuracy.py $(FORM)

bench-regret: dev ## simulate clusters that schedule by predictions (FORM=--fast: the short form)
	$(BIN)/python benchmarks/regret.py $(FORM)

bench-reliability: dev ## measure every promise of reliability (FORM=--fast: the short form)
	$(BIN)/python benchmarks/reliability.py $(FORM)

docs: dev ## write the answers in README.md and /docs again (docs/accuracy.md: make bench-accuracy)
	$(BIN)/python docs/readme_answer.py
	$(BIN)/python docs/example_answers.py

serve: dev ## start the service on HOST:PORT, show one query with its answer, serve until Ctrl-C
	$(BIN)/perfmodel serve --host $(HOST) --port $(PORT) --example

train: dev ## learn from profiles/ and, where PERFMODEL_DATA names a folder, public tables
	$(BIN)/perfmodel train

profile: dev ## measure the workloads of JOBS on this machine into OUT (resumes)
	$(BIN)/perfmodel profile $(JOBS) --out $(OUT)

image-check: dev ## build both images and run them, without a container engine (ARGS='--target small')
	$(BIN)/python deploy/image_check.py $(ARGS)

deploy-check: dev ## check compose, Helm chart, alert rules and unit with the programs that read them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[deploy]'
	$(BIN)/pytest -q tests/deploy

check: lint types test ## everything that has to pass before a change lands

clean: ## remove what was built, the virtual environment included
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
