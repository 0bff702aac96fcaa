# make demo          a toy corpus, trained on, translated, scored and drawn, in a few minutes
# make test          the tests; those that need real data look where ALLYOUNEED_DATA points
# make test-release  what takes long: reliability and the siege with full counts, heads that align, what has to be learned; over two hours
# make check         format, lint, types, architecture
# make bench         every benchmark
# make bench-gpu     an accelerator on one page: correct against the CPU, training speed, decoding speed
# make multi30k      the Multi30k model, trained and scored; goes on where it was interrupted
# make wheel         two wheels in dist/: pure Python, and with the C kernels ready-made for this platform (needs gcc)
# make release       the files of a release in dist/: wheels, sources, SBOM, SHA256SUMS; built twice and compared
# make docs          the documentation as a site in site/
# make notebooks     the chapters of docs/learn as notebooks in notebooks/
# make clean         remove what the other targets cache and build
#
# All of them work in a virtual environment of their own, VENV=.venv; demo and multi30k write to OUT.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-release check bench bench-gpu multi30k wheel release docs notebooks clean

demo: OUT ?= runs/demo
demo: $(INSTALLED)
	$(BIN)/allyouneed demo --out "$(OUT)"

test: $(READY) # a test that hangs fails after a quarter of an hour, with its stack
	$(BIN)/pytest --numprocesses=logical --maxprocesses=4 --dist=loadfile --no-loadscope-reorder \
		--max-worker-restart=0 -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

test-release: $(READY)
	$(BIN)/pytest -m release

check: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest tests/test_architecture.py

bench: $(READY) # those that need no arguments; some need ALLYOUNEED_DATA
	for benchmark in $(filter-out %/extrapolation_corpus.py %/kept_terms.py %/serving_clients.py %/serving_ctranslate2.py %/startup.py \
			%/wmt14_dry_run.py, \
			$(wildcard benchmarks/*.py)); do $(BIN)/python "$$benchmark" || exit 1; done

bench-gpu: $(READY)
	$(BIN)/python benchmarks/accelerator.py

multi30k: OUT ?= $(HOME)/allyouneed-multi30k
multi30k: $(READY)
	PATH="$(abspath $(BIN)):$$PATH" benchmarks/multi30k.sh "$(OUT)"

wheel: $(READY)
	$(BIN)/python -m pip wheel -q --no-deps --wheel-dir dist .
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m pip wheel -q --no-deps --wheel-dir dist .

release: $(READY) # needs gcc; and gcc-aarch64-linux-gnu for the wheel of that architecture
	rm -rf dist
	$(BIN)/python deploy/release.py dist

docs: $(READY)
	$(BIN)/python -m zensical build --strict

notebooks: $(READY)
	$(BIN)/python -m tests.docs.chapters notebooks notebooks

clean:
	rm -rf dist site notebooks .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find src tests benchmarks -name __pycache__ -exec rm -rf {} +

$(INSTALLED): pyproject.toml
	@echo "Installing PyTorch and the other packages that allyouneed needs into $(VENV), once; this takes minutes."
	@began=$$(date +%s) && $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -qq --editable '.[train]' \
		&& echo "Installed in $$(($$(date +%s) - began)) seconds."
	@touch $@

$(READY): $(INSTALLED)
	@echo "Installing the packages that tests and tools need."
	$(BIN)/python -m pip install -qq --editable '.[all,dev]'
	touch $@
