# `make demo` and `make test` need nothing but Python 3.11 to 3.13: they make .venv and install into it.

# The first that runs: a name on the PATH may be a shim for a Python that is not there.
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	if $$name -c 'import sys, venv, ensurepip; assert (3, 11) <= sys.version_info[:2] <= (3, 13)' \
	>/dev/null 2>&1; then echo $$name; break; fi; done)

.PHONY: demo test test-all lint clean

demo: .venv/.installed-demo
	.venv/bin/keras-bert2d demo

test: .venv/.installed-test
	.venv/bin/python -m pytest -n 2 --doctest-modules keras_bert2d tests

test-all: .venv/.installed-test
	.venv/bin/python -m pytest -n 2 -m "slow or not slow" --doctest-modules keras_bert2d tests

lint: .venv/.installed-test
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed-%: setup.cfg | .venv/bin/activate
	.venv/bin/python -m pip install -e '.[$*]'
	touch $@

# `activate` is the last file that venv writes: a .venv without it was cut short.
.venv/bin/activate:
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 that runs and has venv was found" \
	"(on Debian: apt-get install python3-venv). Install one or name it: make PYTHON=/path/to/python3" \
	>&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
