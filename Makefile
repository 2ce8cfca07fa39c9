# Everything runs in .venv, which the first target that needs it sets up. Versions stand in requirements.txt.

.DEFAULT_GOAL := help
.PHONY: help lab site unit test notebooks bench check release grade import export hub clean

# The first that runs and is new enough; a shim that cannot run is passed over. Override: make lab PYTHON=/path/to/python
PYTHON ?= $(firstword $(foreach python,python3 python3.13 python3.12 python3.11,$(if $(shell \
	$(python) -c 'import sys; print("yes" if (3, 11) <= sys.version_info[:2] <= (3, 13) else "")' 2>/dev/null),$(python))))

# Where torch without CUDA comes from. Without it Linux fetches gigabytes of CUDA, of no use without an NVIDIA GPU.
# Override with an empty one for the ordinary index: make lab TORCH_INDEX=
ifeq ($(shell uname -s)$(shell command -v nvidia-smi 2>/dev/null),Linux)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
endif

VENV := .venv/bin/python
LAB := .venv/.lab-is-set-up
TESTS := .venv/.tests-are-set-up
CLASS := .venv/.class-is-set-up
LAB_OPTIONS := --LabApp.default_url=/lab/tree/START.md --LabApp.app_settings_dir="$(CURDIR)/notebooks/.lab" \
	--ServerApp.kernel_websocket_connection_class=posenc_lib.view.prompt.PromptConnection
SITE := .venv/.site-is-set-up
ASSIGNMENTS := notebooks/assignments

# How many tests run at once: as many as there are cores, two to four; each of those in a browser fills a gigabyte.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); \
	if [ $$cores -gt 4 ]; then echo 4; elif [ $$cores -lt 2 ]; then echo 2; else echo $$cores; fi)

# The folder of a class, with source/ and submitted/ in it. Override: make grade COURSE=/path/to/class
COURSE ?= $(ASSIGNMENTS)

# Where the course lies on GitHub; with it the pages of the site have links that run their notebooks.
# make site REPOSITORY=https://github.com/OWNER/NAME
REPOSITORY ?=
PIP := $(VENV) -m pip install --quiet --disable-pip-version-check
REACHABLE := $(VENV) -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)'

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

lab: $(LAB)  ## open the course in JupyterLab, on its start page; prints the address
	$(VENV) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_OPTIONS) notebooks

site: $(SITE)  ## build the course as pages whose sliders need no kernel, in build/site; needs npm
	$(VENV) notebooks/site/build_site.py --repository "$(REPOSITORY)" --open

unit: $(TESTS)  ## test the library: about six minutes on two cores
	@start=$$(date +%s); \
	$(VENV) -m pytest -n$(WORKERS) --dist worksteal --ignore=tests/browser --ignore=tests/assignments --ignore=tests/notebooks \
		tests; status=$$?; \
	echo "unit: $$(($$(date +%s) - start)) seconds"; exit $$status

test: $(TESTS)  ## run everything: lint, types, unit, grading, notebooks, sliders in a browser
	@start=$$(date +%s); failed=""; \
	stage() { since=$$(date +%s); name=$$1; shift; "$$@" || failed="$$failed $$name"; \
		echo "$$name: $$(($$(date +%s) - since)) seconds"; }; \
	stage lint $(VENV) -m ruff check .; \
	stage format $(VENV) -m ruff format --check --quiet .; \
	stage types $(VENV) -m mypy; \
	$(MAKE) --no-print-directory unit || failed="$$failed unit"; \
	stage notebooks $(VENV) tests/notebooks/forked_kernels.py \
		$(VENV) -m pytest --nbval --nbval-kernel-name=python3 --nbval-cell-timeout=300 \
		--nbval-sanitize-with=tests/notebooks/sanitize.cfg -n$(WORKERS) --dist loadscope notebooks; \
	stage grading-and-pages $(VENV) -m pytest -n$(WORKERS) --dist loadgroup --no-loadscope-reorder \
		tests/notebooks tests/assignments tests/browser; \
	echo "test: $$(($$(date +%s) - start)) seconds"; \
	if [ -n "$$failed" ]; then echo "Failed:$$failed"; exit 1; fi

notebooks: $(TESTS)  ## run every notebook and save it in its canonical form
	$(VENV) tests/notebooks/canonical.py

bench: $(TESTS)  ## measure speed beside other implementations; OPTIONS=--sliders for the sliders too
	PYTHONPATH=notebooks/site:tests/browser $(VENV) tests/bench.py $(OPTIONS)

check: $(LAB)  ## say whether everything that the course needs is installed
	$(VENV) -m posenc_lib.check_setup

release: $(CLASS)  ## build the student versions of the graded assignments
	$(VENV) $(ASSIGNMENTS)/release.py "$(COURSE)"

grade: $(CLASS)  ## grade the submissions of a class; OPTIONS="--jobs 8" and others
	$(VENV) $(ASSIGNMENTS)/grade.py "$(COURSE)" $(OPTIONS)

import: $(CLASS)  ## take over a download of Moodle or Canvas: ZIP=all.zip ASSIGNMENT=02_sinusoidal
	$(VENV) $(ASSIGNMENTS)/lms.py import "$(ZIP)" "$(ASSIGNMENT)" "$(COURSE)" $(OPTIONS)

export: $(CLASS)  ## write scores and feedback for Moodle and Canvas: ASSIGNMENT=02_sinusoidal
	$(VENV) $(ASSIGNMENTS)/lms.py export "$(ASSIGNMENT)" "$(COURSE)" $(OPTIONS)

hub: $(CLASS)  ## let ten learners work on a hub of this machine; OPTIONS="--learners 3" and others
	$(PIP) -r $(ASSIGNMENTS)/hub/requirements.txt
	$(VENV) $(ASSIGNMENTS)/hub/try_hub.py $(OPTIONS)

clean:  ## remove .venv and caches
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache .hypothesis build *.egg-info
	find . -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

$(VENV):
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python from 3.11 to 3.13 found: install one, or name it with make PYTHON=/path/to/python."; exit 1; fi
	@echo "Setting up .venv, once. This takes a few minutes."
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

$(LAB): requirements.txt pyproject.toml | $(VENV)
	@$(VENV) -m pip --version >/dev/null 2>&1 || $(VENV) -m ensurepip
ifneq ($(TORCH_INDEX),)
	@if $(REACHABLE) $(TORCH_INDEX) 2>/dev/null; then index="--extra-index-url $(TORCH_INDEX)"; \
	else echo "$(TORCH_INDEX) cannot be reached: torch comes from the ordinary index."; fi; \
	$(PIP) $$index $$(sed -n 's/^\(torch==[^ #]*\).*/\1/p' requirements.txt)
endif
	$(PIP) -r requirements.txt
	@$(VENV) -c 'import matplotlib.pyplot' 2>/dev/null  # builds its font cache now and not under a notebook
	@touch $@

$(CLASS): $(LAB) $(ASSIGNMENTS)/requirements.txt
	$(PIP) -r $(ASSIGNMENTS)/requirements.txt
	@touch $@

$(SITE): $(LAB) notebooks/site/requirements.txt tests/browser/requirements.txt
	$(PIP) -r notebooks/site/requirements.txt -r tests/browser/requirements.txt
	@touch $@

$(TESTS): $(LAB) tests/requirements.txt tests/browser/requirements.txt notebooks/site/requirements.txt $(ASSIGNMENTS)/requirements.txt $(ASSIGNMENTS)/hub/requirements.txt
	$(PIP) -r tests/requirements.txt
	@touch $@
